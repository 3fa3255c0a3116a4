import assert from "node:assert/strict";
import { test } from "node:test";

import { ControlClient } from "../../static/weei/api/control-client.js";
import { HostPolicy } from "../../static/weei/api/host-policy.js";
import { PeerIdentity } from "../../static/weei/api/peer.js";
import { Site } from "../../static/weei/api/site.js";
import { DeviceStorage } from "../../static/weei/api/storage.js";
import { credentials } from "../../static/weei/net/credentials.js";
import { Http } from "../../static/weei/net/http.js";
import { FakeSocket } from "./fakes.js";
import { problem, world } from "./world.js";

const BASE = "https://weei.test";
const HOST = "https://host.test";
const ALLOWED = { origin: HOST, training: true, reason: null, user: null };

/** A page of another site: its windows, its messages and the server's answers are the test's. */
class Page extends EventTarget {
  origin = HOST;
  /** @type {{url: string, closed: boolean}[]} */ popups = [];
  blocksPopups = false;

  /** @param {string} url */
  open(url) {
    if (this.blocksPopups) return null;
    const popup = { url, closed: false };
    this.popups.push(popup);
    return popup;
  }

  get state() {
    return new URL(/** @type {any} */ (this.popups.at(-1)).url).searchParams.get("state");
  }

  /** @param {unknown} data @param {{origin?: string, source?: unknown}} [from] */
  says(data, { origin = BASE, source = this.popups.at(-1) } = {}) {
    this.dispatchEvent(Object.assign(new Event("message"), { data, origin, source }));
  }
}

/** @param {{answer?: (path: string, init?: RequestInit) => unknown, tryWorker?: () => Promise<unknown>}} [options] */
function visit({ answer = () => ALLOWED, tryWorker = async () => {} } = {}) {
  const page = new Page();
  const document = new EventTarget();
  const storage = new DeviceStorage(undefined);
  /** @type {{path: string, headers: Headers, method: string}[]} */
  const calls = [];
  const http = new Http({
    base: BASE,
    headers: () => credentials(storage.peer(), storage.user()),
    fetch: async (url, init) => {
      const { pathname: path } = new URL(String(url));
      calls.push({ path, method: init?.method ?? "GET", headers: new Headers(init?.headers) });
      const value = answer(path, init);
      if (value instanceof Error) throw value;
      return value instanceof Response ? value : Response.json(value);
    },
  });
  const policy = new HostPolicy(BASE, document);
  const site = new Site({ http, storage, policy, page: /** @type {any} */ (page), tryWorker });
  /** @param {object} violation */
  const violate = (violation) => document.dispatchEvent(Object.assign(new Event("securitypolicyviolation"), { disposition: "enforce", ...violation }));
  return { page, storage, site, calls, violate };
}

test("a page of our own asks nothing", async () => {
  const { page, site, calls } = visit();
  page.origin = BASE;
  await site.learn();
  assert.deepEqual([site.training, site.reason, calls.length], [true, null, 0]);
  await assert.rejects(site.signIn(), /own pages/);
});

test("a registered page learns that it may, once its parts start", async () => {
  let started = 0;
  const { site, calls } = visit({ tryWorker: async () => void (started += 1) });
  await site.learn();
  assert.deepEqual([site.training, site.reason, site.user, started], [true, null, null, 1]);
  assert.deepEqual(calls.map(({ path }) => path), ["/api/v1/site"]);
});

test("a user for whom it is not enabled reads the server's sentence", async () => {
  const { site } = visit({ answer: () => ({ ...ALLOWED, training: false, reason: "Not for alice." }) });
  await site.learn();
  assert.deepEqual([site.training, site.reason], [false, "Not for alice."]);
});

test("an origin that may not read the answer is told that it is not registered", async () => {
  const { site, calls } = visit({ answer: (path) => (path === "/api/v1/site" ? new TypeError("Failed to fetch") : new Response("")) });
  await site.learn();
  assert.equal(site.reason, `The origin ${HOST} is not registered at ${BASE}. An administrator of that server can register it.`);
  assert.deepEqual(calls.map(({ method, path }) => [method, path]), [["GET", "/api/v1/site"], ["HEAD", "/static/weei/weei.js"]]);
});

test("a server that is away is not taken for one that refuses", async () => {
  const { site } = visit({ answer: () => new TypeError("Failed to fetch") });
  await site.learn();
  assert.match(site.reason ?? "", /cannot be reached/);
});

test("a policy that forbids asking is named, with what it must allow", async () => {
  const { site, violate } = visit({ answer: () => new TypeError("Failed to fetch") });
  violate({ blockedURI: "https://elsewhere.test/x", effectiveDirective: "img-src" });
  violate({ blockedURI: `${BASE}/api/v1/site`, effectiveDirective: "connect-src", disposition: "report" });
  const learning = site.learn();
  violate({ blockedURI: `${BASE}/api/v1/site`, effectiveDirective: "connect-src" });
  await learning;
  assert.match(site.reason ?? "", /forbids connect-src https:\/\/weei.test\/api\/v1\/site\. It must allow: script-src https:\/\/weei.test 'wasm-unsafe-eval'/);
  assert.match(site.reason ?? "", /worker-src blob: https:\/\/weei.test; connect-src https:\/\/weei.test wss:\/\/weei.test/);
});

test("a policy that forbids the Worker is named too; another failure is told as it is", async () => {
  const tryWorker = () => Promise.reject(new Error("It did not start."));
  const forbidden = visit({ tryWorker });
  forbidden.violate({ blockedURI: "blob", effectiveDirective: "worker-src" });
  await forbidden.site.learn();
  assert.match(forbidden.site.reason ?? "", /forbids worker-src blob\./);
  const failed = visit({ tryWorker });
  await failed.site.learn();
  assert.match(failed.site.reason ?? "", /^Training cannot run on this page: It did not start\. If .* must allow: script-src/);
});

test("a Worker that cannot even be made rejects the call", async () => {
  const client = new ControlClient(
    () => {
      throw new Error("SecurityError");
    },
    () => {},
  );
  await assert.rejects(client.call("disconnect"), /SecurityError/);
});

test("signing in keeps the token that our popup posts, and says for whom", async () => {
  const { page, storage, site, calls } = visit({ answer: (_, init) => ({ ...ALLOWED, user: new Headers(init?.headers).get("Authorization") && "alice" }) });
  await site.learn();
  const signing = site.signIn();
  assert.equal(page.popups.length, 1);
  const { origin, pathname, searchParams } = new URL(/** @type {any} */ (page.popups[0]).url);
  assert.deepEqual([origin, pathname, searchParams.get("origin")], [BASE, "/authorize/", HOST]);
  assert.match(page.state ?? "", /^[0-9a-f]{32}$/);
  page.says({ type: "weei:signed-in", state: page.state, token: "weei_user_x" });
  await signing;
  assert.equal(site.user, "alice");
  assert.equal(storage.user(), "weei_user_x");
  assert.equal(calls.at(-1)?.headers.get("Authorization"), "Bearer weei_user_x");
});

test("nobody else's message is taken for the popup's", async () => {
  const { page, storage, site } = visit();
  const signing = site.signIn();
  const right = { type: "weei:signed-in", state: page.state, token: "weei_user_evil" };
  page.says(right, { origin: "https://evil.test" });
  page.says(right, { source: {} });
  page.says({ ...right, state: "0".repeat(32) });
  page.says({ ...right, state: null });
  page.says(null);
  assert.equal(storage.user(), null);
  page.says({ ...right, token: "weei_user_x" });
  await signing;
  assert.equal(storage.user(), "weei_user_x");
  // The state counts once: nobody listens any more.
  page.says(right);
  assert.equal(storage.user(), "weei_user_x");
});

test("every state is another", async () => {
  const { page, site } = visit();
  const states = new Set();
  for (let turn = 0; turn < 3; turn += 1) {
    const signing = site.signIn();
    states.add(page.state);
    page.says({ type: "weei:refused", state: page.state });
    await assert.rejects(signing, /not allowed to act for you/);
  }
  assert.equal(states.size, 3);
});

test("a window that was closed or blocked is an error with a sentence", async () => {
  const { page, site } = visit();
  page.blocksPopups = true;
  await assert.rejects(site.signIn(), /did not open the sign-in window/);
  page.blocksPopups = false;
  const signing = site.signIn();
  /** @type {any} */ (page.popups[0]).closed = true;
  await assert.rejects(signing, /was closed, or .* Cross-Origin-Opener-Policy/);
});

test("signing out ends the token at the server and here", async () => {
  const { storage, site, calls } = visit({ answer: (path) => (path === "/api/v1/site/sign-out" ? new Response(null, { status: 204 }) : ALLOWED) });
  await site.signOut();
  assert.equal(calls.length, 0);
  storage.setUser("weei_user_x");
  await site.signOut();
  assert.deepEqual(calls.map(({ method, path }) => `${method} ${path}`), ["POST /api/v1/site/sign-out", "GET /api/v1/site"]);
  assert.deepEqual([storage.user(), site.user, calls[1]?.headers.get("Authorization")], [null, null, null]);
});

test("a token that could not be ended is kept, so that it can be tried again", async () => {
  const { storage, site } = visit({ answer: () => problem(500, "error") });
  storage.setUser("weei_user_x");
  await assert.rejects(site.signOut());
  assert.equal(storage.user(), "weei_user_x");
});

test("person and device stand beside each other", () => {
  assert.deepEqual(credentials(null, null), {});
  assert.deepEqual(credentials({ token: "p" }), { Authorization: "Bearer p" });
  assert.deepEqual(credentials(null, "u"), { Authorization: "Bearer u" });
  assert.deepEqual(credentials({ token: "p" }, "u"), { Authorization: "Bearer u", "Weei-Peer": "p" });
  const storage = new DeviceStorage(undefined);
  storage.setPeer({ peerId: "1", token: "p" });
  storage.setUser("u");
  const identity = new PeerIdentity({ storage, http: /** @type {any} */ (null), connect: async () => {} });
  assert.deepEqual(identity.headers(), { Authorization: "Bearer u", "Weei-Peer": "p" });
});

test("a running session says hello again as the person who signed in, and keeps its place", (t) => {
  const made = world();
  t.after(() => made.session.stop());
  made.connect();
  made.says({ assignment: null });
  assert.equal("user" in FakeSocket.last.sent[0], false);
  made.session.setUser("weei_user_x");
  FakeSocket.last.open();
  const [hello] = FakeSocket.last.sent;
  assert.equal(hello.user, "weei_user_x");
  assert.equal(hello.session, 3);
});
