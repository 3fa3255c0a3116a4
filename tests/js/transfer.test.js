import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { after, before, beforeEach, test } from "node:test";

import { sha256 } from "../../static/weei/hash.js";
import { backoffMs } from "../../static/weei/net/backoff.js";
import { download } from "../../static/weei/net/download.js";
import { failureOf, Http, Problem, retry, Unreachable } from "../../static/weei/net/http.js";
import { judge, upload } from "../../static/weei/net/upload.js";
import { FakeTus } from "./fakes.js";

const digest = (/** @type {Uint8Array} */ bytes) => createHash("sha256").update(bytes).digest("hex");
const BYTES = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 31) % 251);
const WANTED = { sha256: digest(BYTES), bytes: BYTES.length };
const quick = { random: () => 0 };

/** @typedef {import("node:http").RequestListener} Handler */
/** @type {Handler[]} one per request, the last one repeated */
let handlers = [];
/** @type {{method: string, range: string | undefined, auth: string | undefined}[]} */
let requests = [];
const server = createServer((request, response) => {
  requests.push({ method: String(request.method), range: request.headers.range, auth: request.headers.authorization });
  const handler = handlers.length > 1 ? handlers.shift() : handlers[0];
  handler?.(request, response);
});
/** @type {Http} */
let http;

before(async () => {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  http = new Http({ base: `http://127.0.0.1:${port}`, headers: () => ({ Authorization: "Bearer t" }) });
});
after(() => server.close());
beforeEach(() => {
  requests = [];
});

/** @param {number} status @param {object} body @param {Record<string, string>} [headers] @returns {Handler} */
const problem = (status, body, headers = {}) => (_, response) => {
  response.writeHead(status, { "Content-Type": "application/problem+json", ...headers }).end(JSON.stringify(body));
};
/** @type {Handler} */
const whole = (request, response) => {
  const start = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
  response.writeHead(start ? 206 : 200).end(BYTES.subarray(start));
};
/** @type {Handler} */
const cutAfterHalf = (_, response) => {
  response.writeHead(200, { "Content-Length": String(BYTES.length) });
  response.write(BYTES.subarray(0, 50_000), () => setImmediate(() => response.destroy()));
};

test("hashes the same with and without crypto.subtle (C66)", async () => {
  const blob = new Blob([BYTES]);
  assert.equal(await sha256(blob, { subtle: undefined }), WANTED.sha256);
  assert.equal(await sha256(blob), WANTED.sha256);
  assert.equal(await sha256(new Blob([]), { subtle: undefined }), digest(new Uint8Array()));
});

test("a download that breaks off goes on where it stopped", async () => {
  handlers = [cutAfterHalf, whole];
  /** @type {number[]} */
  const seen = [];
  const blob = await download(http, "/x", WANTED, { ...quick, onProgress: (bytes) => seen.push(bytes) });
  assert.equal(digest(new Uint8Array(await blob.arrayBuffer())), WANTED.sha256);
  assert.match(String(requests[1]?.range), /^bytes=\d+-$/);
  assert.notEqual(requests[1]?.range, "bytes=0-");
  assert.deepEqual(seen, [...seen].sort((one, other) => one - other));
  assert.equal(requests[0]?.auth, "Bearer t");
});

test("a server that ignores the range is read from the start", async () => {
  handlers = [cutAfterHalf, (_, response) => void response.writeHead(200).end(BYTES)];
  const blob = await download(http, "/x", WANTED, quick);
  assert.equal(blob.size, BYTES.length);
});

test("wrong bytes are fetched once more, then refused (C49)", async () => {
  const flipped = BYTES.slice();
  flipped[7] = (flipped[7] ?? 0) ^ 1;
  const wrong = /** @type {Handler} */ ((_, response) => void response.writeHead(200).end(flipped));
  handlers = [wrong, whole];
  assert.equal((await download(http, "/x", WANTED, quick)).size, BYTES.length);
  handlers = [wrong];
  requests = [];
  await assert.rejects(download(http, "/x", WANTED, quick), { code: "hash_mismatch" });
  assert.equal(requests.length, 2);
});

test("more bytes than declared are not read to their end", async () => {
  handlers = [(_, response) => void response.writeHead(200).end(new Uint8Array(200_000))];
  await assert.rejects(download(http, "/x", WANTED, quick), { code: "hash_mismatch" });
});

test("a problem detail is final, whatever else fails is tried again", async () => {
  handlers = [problem(403, { title: "Not yours.", code: "forbidden", field: "job" })];
  await assert.rejects(http.retried("GET", "/x"), { name: "Problem", message: "Not yours.", code: "forbidden", field: "job", status: 403 });
  assert.equal(requests.length, 1);
  const bad = /** @type {Handler} */ ((_, response) => void response.writeHead(502).end("<html>"));
  handlers = [bad, bad, (_, response) => void response.writeHead(200).end('{"a":1}')];
  requests = [];
  assert.deepEqual(await retry(() => http.json("GET", "/x"), undefined, quick), { a: 1 });
  assert.equal(requests.length, 3);
});

test("429 and 503 are tried again after their Retry-After", async () => {
  /** @type {number[]} */
  const waits = [];
  const wait = async (/** @type {number} */ ms) => void waits.push(ms);
  handlers = [problem(429, { title: "Slow down.", code: "rate_limited" }, { "Retry-After": "7" }), (_, response) => void response.end("{}")];
  await retry(() => http.json("GET", "/x"), undefined, { wait });
  assert.deepEqual(waits, [7000]);
  assert.ok(failureOf(503, "text/html", "2", "") instanceof Unreachable);
  assert.ok(failureOf(503, "application/problem+json", null, '{"title":"Full.","code":"storage_full"}') instanceof Problem);
  assert.ok(failureOf(404, "text/html", null, "") instanceof Problem);
});

test("an abort ends a request and a wait at once", async () => {
  const abort = new AbortController();
  handlers = [() => abort.abort(new Error("stopped"))];
  await assert.rejects(http.retried("GET", "/x", undefined, abort.signal), { message: "stopped" });
});

test("the first retry comes within half a second, later ones within 30 s", () => {
  assert.equal(backoffMs(0, () => 1), 500);
  assert.equal(backoffMs(3, () => 1), 4000);
  assert.equal(backoffMs(50, () => 1), 30_000);
  assert.equal(backoffMs(5, () => 0), 0);
});

/** @param {Blob} blob @param {FakeTus} tus @param {object} [more] */
const send = (blob, tus, more = {}) =>
  upload(blob, blob.size, { endpoint: "http://server.test/bytes/uploads", headers: { Authorization: "Bearer t" }, metadata: { kind: "update" }, httpStack: tus, ...quick, ...more });

test("a small body goes in one POST, a large one in slices of 8 MiB", async () => {
  const small = new FakeTus();
  assert.deepEqual(await send(new Blob([BYTES]), small), { duplicate: false, sha256: WANTED.sha256, bytes: BYTES.length });
  assert.deepEqual(small.log.map(({ method, bytes }) => [method, bytes]), [["POST", BYTES.length]]);
  const large = new FakeTus();
  await send(new Blob([new Uint8Array(8 * 1024 * 1024 + 5)]), large);
  assert.deepEqual(large.log.map(({ method, bytes }) => [method, bytes]), [["POST", 0], ["PATCH", 8 * 1024 * 1024], ["PATCH", 5]]);
});

test("a retry after 503 sends the same bytes whole again (C65)", async () => {
  const tus = new FakeTus([{ status: 503 }, { drop: true }]);
  const blob = new Blob([BYTES]);
  await send(blob, tus);
  assert.deepEqual(tus.log.map(({ bytes }) => bytes), [BYTES.length, BYTES.length, BYTES.length]);
  assert.deepEqual(tus.log.map(({ sha256: hash }) => hash), [WANTED.sha256, WANTED.sha256, WANTED.sha256]);
});

test("a Blob that lost its bytes never leaves the page (C65)", async () => {
  const tus = new FakeTus();
  await assert.rejects(upload(new Blob([]), 16, { endpoint: "http://server.test/", headers: {}, metadata: {}, httpStack: tus }), /0 bytes; expected 16/);
  assert.equal(tus.log.length, 0);
});

test("an upload that the server refuses with a reason is not tried again", async () => {
  for (const code of ["stale_attempt", "already_received", "wrong_size", "non_finite"]) {
    const tus = new FakeTus([{ status: 409, problem: { title: "Over.", code, round: 5 } }]);
    await assert.rejects(send(new Blob([BYTES]), tus), (error) => error instanceof Problem && error.code === code && error.body.round === 5);
    assert.equal(tus.log.length, 1);
  }
});

test("bytes that changed on the way are sent again once", async () => {
  const mismatch = { status: 422, problem: { title: "Other bytes came.", code: "hash_mismatch" } };
  const once = new FakeTus([mismatch]);
  await send(new Blob([BYTES]), once);
  assert.equal(once.log.length, 2);
  const twice = new FakeTus([mismatch, mismatch, mismatch]);
  await assert.rejects(send(new Blob([BYTES]), twice), { code: "hash_mismatch" });
  assert.equal(twice.log.length, 2);
});

test("an accepted repeat is a success, marked duplicate (C24)", async () => {
  const tus = new FakeTus([{ status: 201, duplicate: true }]);
  assert.equal((await send(new Blob([BYTES]), tus)).duplicate, true);
  assert.equal(tus.log.length, 1);
});

test("a broken slice goes on where the server says", async () => {
  const tus = new FakeTus([{ status: 201 }, { drop: true }]);
  await send(new Blob([new Uint8Array(9 * 1024 * 1024)]), tus);
  assert.deepEqual(tus.log.map(({ method }) => method), ["POST", "PATCH", "HEAD", "PATCH", "PATCH"]);
});

test("an error of our own code is not mistaken for the network's", () => {
  assert.equal(judge(new Error("bug")).retryInMs, null);
});

test("aborting an upload rejects at once", async () => {
  const abort = new AbortController();
  const tus = new FakeTus([{ hang: true }]);
  const sending = send(new Blob([BYTES]), tus, { signal: abort.signal });
  setImmediate(() => abort.abort(new Error("left")));
  await assert.rejects(sending, { message: "left" });
});
