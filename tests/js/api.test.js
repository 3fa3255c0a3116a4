import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { CommandError, ControlClient } from "../../static/weei/api/control-client.js";
import { DebugLog } from "../../static/weei/api/debug-log.js";
import { DiagnosticsBoard } from "../../static/weei/api/diagnostics.js";
import { cookieToken } from "../../static/weei/api/page.js";
import { PeerIdentity } from "../../static/weei/api/peer.js";
import { StateStore } from "../../static/weei/api/state.js";
import { DeviceStorage } from "../../static/weei/api/storage.js";
import { TrainingApi } from "../../static/weei/api/training.js";
import { FileUploads } from "../../static/weei/jobs/uploads.js";
import { Http } from "../../static/weei/net/http.js";
import { FakeTus, settled, until } from "./fakes.js";
import { wireCheckpoint, wireJob } from "./wire.js";
import { JOB, problem } from "./world.js";

/** @type {{method: string, path: string, body: any, headers: Headers}[]} */
let calls = [];
/** @type {Record<string, (body: any, query: URLSearchParams) => unknown>} */
let answers = {};
/** @type {[string, any][]} */
let control = [];

const http = new Http({
  base: "http://server.test",
  headers: () => ({ "X-CSRFToken": "c", ...identity.headers() }),
  fetch: async (url, init) => {
    const { pathname, searchParams } = new URL(String(url));
    const body = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
    calls.push({ method: init?.method ?? "GET", path: pathname, body, headers: new Headers(init?.headers) });
    const value = await answers[pathname]?.(body, searchParams);
    if (value === undefined) return problem(404, "not_found");
    return value instanceof Response ? value : Response.json(value);
  },
});
const client = /** @type {any} */ ({
  call: async (/** @type {string} */ method, /** @type {any} */ args) => {
    control.push([method, args]);
    if (method === "storage") return { files: 2, bytes: 30, quotaBytes: 1000, usedBytes: 40 };
    if (method !== "upload") return undefined;
    return args.files.map((/** @type {File} */ file) => ({ fileName: file.name, bytes: file.size, sha256: `hash of ${file.name}` }));
  },
});
/** @type {DeviceStorage} */
let storage;
/** @type {PeerIdentity} */
let identity;
/** @type {StateStore} */
let state;
/** @type {TrainingApi} */
let training;

beforeEach(() => {
  calls = [];
  control = [];
  answers = {
    "/api/v1/peers": () => ({ peerId: `peer-${calls.length}`, token: "t" }),
    "/api/v1/jobs": () => ({ draftId: "d" }),
    "/api/v1/drafts/d": () => ({ state: "done", step: null, done: 1, total: 1, error: null, jobId: JOB.id }),
    [`/api/v1/jobs/${JOB.id}`]: () => wireJob(JOB.id, { status: "ready" }),
    [`/api/v1/jobs/${JOB.id}/open`]: () => wireJob(JOB.id, { status: "ready" }),
    [`/api/v1/jobs/${JOB.id}/checkpoints`]: () => [wireCheckpoint(0)],
    [`/api/v1/jobs/${JOB.id}/chunks`]: () => ({ chunkIds: ["c1", "c2", "c3", "c4"] }),
  };
  storage = new DeviceStorage(undefined);
  identity = new PeerIdentity({ storage, http, connect: async (peer) => void control.push(["connect", peer]) });
  state = new StateStore({ diagnostics: new DiagnosticsBoard(), preferences: storage.preferences(2), cores: 2 });
  training = new TrainingApi({ state, control: client, http, identity, storage, log: new DebugLog({ storage: undefined }) });
});

const file = (/** @type {string} */ name, text = name) => new File([text], name);
/** @returns {any} */
const order = () => ({
  wasm: file("m.wasm"),
  manifest: Promise.resolve(file("manifest.json")),
  files: [file("a.bin"), Promise.resolve(file("b.bin"))],
  settings: { epochs: 3, localEpochs: 1, batchSize: 16, coordinatorParticipates: true },
});
const descriptor = (/** @type {string} */ name) => ({ fileName: name, bytes: name.length, sha256: `hash of ${name}` });

test("subscribers get a deep copy at once and after every change", async () => {
  /** @type {any[]} */
  const seen = [];
  const stop = training.subscribe((given) => seen.push(given));
  assert.equal(seen.length, 1);
  seen[0].participation.stage = "changed";
  assert.equal(training.getState().participation.stage, "waiting");
  await training.createJob(order());
  assert.ok(seen.some(({ preparing, busy }) => preparing && busy));
  assert.equal(seen.at(-1).busy, false);
  const before = seen.length;
  stop();
  state.changed();
  assert.equal(seen.length, before);
});

test("creating a job uploads every file, sends their hashes and opens the job here", async () => {
  const job = await training.createJob({ ...order(), name: "Mine", validation: file("v.bin"), executionFiles: [file("x.wgsl")] });
  assert.equal(job.id, JOB.id);
  assert.equal(job.role, "coordinator");
  const upload = control.find(([method]) => method === "upload")?.[1];
  assert.deepEqual(upload.files.map((/** @type {File} */ sent) => sent.name), ["m.wasm", "manifest.json", "a.bin", "b.bin", "v.bin", "x.wgsl"]);
  assert.equal(upload.headers["X-CSRFToken"], "c");
  const body = calls.find(({ path, method }) => path === "/api/v1/jobs" && method === "POST")?.body;
  assert.deepEqual(body, {
    name: "Mine",
    module: descriptor("m.wasm"),
    manifest: descriptor("manifest.json"),
    files: [descriptor("a.bin"), descriptor("b.bin")],
    validation: descriptor("v.bin"),
    executionFiles: [descriptor("x.wgsl")],
    settings: order().settings,
  });
  const opened = calls.find(({ path }) => path.endsWith("/open"));
  assert.equal(opened?.headers.get("authorization"), "Bearer t");
  assert.equal(opened?.headers.get("x-csrftoken"), "c");
});

test("while another job is current nothing is sent, but for a job that is not to be opened here", async () => {
  state.control = /** @type {any} */ ({ peerId: "me", peerJob: { ...JOB, id: "another" }, invitations: [], participation: {} });
  await assert.rejects(training.createJob(order()), { message: "Leave the current job first.", code: "leave_first" });
  assert.deepEqual([calls.length, control.length], [0, 0]);
  const job = await training.createJob({ ...order(), open: false });
  assert.equal(job.id, JOB.id);
  assert.equal(calls.find(({ path }) => path.endsWith("/open")), undefined);
});

test("when the person changes, their job is not asked for any more", async () => {
  await training.watch(JOB.id);
  await training.userChanged();
  calls.length = 0;
  assert.equal(training.getState().job, undefined);
  await assert.rejects(training.start(), /No job of yours is open/);
  assert.equal(calls.length, 0);
});

test("continuing sends the checkpoint and its mode, and refuses another mode before anything is sent", async () => {
  await assert.rejects(training.continueFromCheckpoint({ ...order(), checkpoint: file("c"), datasetMode: "again" }), /"new" or "resume"/);
  assert.equal(calls.length, 0);
  await training.continueFromCheckpoint({ ...order(), checkpoint: Promise.resolve(file("c")), datasetMode: "resume" });
  const body = calls.find(({ path, method }) => path === "/api/v1/jobs" && method === "POST")?.body;
  assert.deepEqual([body.checkpoint, body.datasetMode], [descriptor("c"), "resume"]);
});

test("a draft that failed rejects with the server's reason, and nothing is left busy", async () => {
  answers["/api/v1/drafts/d"] = () => ({ state: "failed", step: "module", done: 0, total: 1, error: "chunk-002: expected 128 bytes; found 127.", jobId: null });
  await assert.rejects(training.createJob(order()), /chunk-002/);
  const { error, busy, preparing, draft } = training.getState();
  assert.deepEqual([error, busy, preparing, draft?.state], ["chunk-002: expected 128 bytes; found 127.", false, false, "failed"]);
});

test("a missing file, or what is none, is named before anything is sent", async () => {
  await assert.rejects(training.createJob({ ...order(), wasm: undefined }), /^Error: wasm:/);
  await assert.rejects(training.createJob({ ...order(), files: [file("a.bin"), "b.bin"] }), /^Error: files\[1\] must be a File; found "b.bin"/);
  await assert.rejects(training.createJob({ ...order(), validation: {} }), /^Error: validation must be a File; found \{\}/);
  assert.equal(control.length, 0);
});

test("a command that the server refuses throws its sentence and code", async () => {
  await training.watch(JOB.id);
  answers[`/api/v1/jobs/${JOB.id}/start`] = () => problem(409, "no_participants", { title: "Nobody can train yet.", field: "participants" });
  await assert.rejects(training.start(), { message: "Nobody can train yet.", code: "no_participants", field: "participants" });
  assert.equal(training.getState().error, "Nobody can train yet.");
});

test("coordinator commands without a job of one's own say why", async () => {
  const calls = [() => training.start(), () => training.exportCheckpoint(), () => training.exportModule(), () => training.listInvitations(), () => training.invite("p")];
  for (const call of calls) await assert.rejects(call, /No job of yours is open/);
  answers["/api/v1/peer/job"] = () => ({ job: wireJob(JOB.id, { role: "participant", queue: null }) });
  answers["/api/v1/peer/job/checkpoints"] = () => [wireCheckpoint(0, { remaining: null })];
  training.followPeer(JOB);
  await until(() => training.getState().checkpointsPage.complete);
  await assert.rejects(training.start(), /Only the coordinator may do this; this browser takes part in “Digits”/);
});

test("a command's answer becomes the job, and checkpoints that were loaded stay", async () => {
  await training.watch(JOB.id);
  answers[`/api/v1/jobs/${JOB.id}/pause`] = () => wireJob(JOB.id, { status: "paused" });
  await training.pause();
  const { job } = training.getState();
  assert.deepEqual([job?.status, job?.checkpoints.length], ["paused", 1]);
});

test("an exported checkpoint is a File with a safe name, of the latest round unless one is named", async () => {
  answers[`/api/v1/jobs/${JOB.id}`] = () => wireJob(JOB.id, { name: 'a/b "<x>"', status: "completed" });
  answers[`/api/v1/jobs/${JOB.id}/checkpoints`] = () => [wireCheckpoint(36)];
  await training.watch(JOB.id);
  answers[`/bytes/jobs/${JOB.id}/checkpoints/36`] = () => new Response("bytes");
  const exported = await training.exportCheckpoint();
  assert.deepEqual([exported.name, await exported.text()], ["a-b-x-round-36.weei-checkpoint", "bytes"]);
});

test("opening an invitation makes this browser a peer, once", async () => {
  const invitation = { jobId: JOB.id, jobName: "Digits", state: "invited", modelInfo: { id: "digits" } };
  answers["/api/v1/invitations/open"] = () => invitation;
  await Promise.all([training.openInvitation("x"), training.openInvitation("x")]);
  assert.equal(calls.filter(({ path }) => path === "/api/v1/peers").length, 1);
  assert.deepEqual(training.getState().invitations, [[JOB.id, { state: "invited", invitation }]]);
  await training.decideInvitation(JOB.id, false);
  assert.deepEqual(control.at(-1), ["decide", { jobId: JOB.id, accepted: false }]);
  assert.deepEqual(training.getState().invitations, []);
});

/** This browser takes part in a job of this model. @param {object} info @param {object} settings @param {number} activeWorkers */
function takesPart(info, settings, activeWorkers = 0) {
  state.invitations.set(JOB.id, { jobId: JOB.id, state: "modelLoaded" });
  state.control = /** @type {any} */ ({ peerId: "me", peerJob: JOB, invitations: [], participation: { connected: true }, activeWorkers });
  state.told = { ...state.told, wire: wireJob(JOB.id, { role: "participant", info, settings }) };
  return /** @type {any} */ (training.getState().job).localWorkers;
}

test("localWorkers tell what was asked for, what fits here, and what runs", async () => {
  const units = { maxWorkers: 6, workSource: { inputs: "none" } };
  const settings = { workers: 8, experience: { unitsPerAssignment: 32 } };
  await training.setMaxLocalWorkers(64);
  state.cores = 16;
  assert.deepEqual(takesPart(units, settings, 5), { requested: 8, capacity: 6, effective: 6, active: 5 });
  assert.deepEqual(takesPart(units, { ...settings, workers: 2 }), { requested: 2, capacity: 6, effective: 2, active: 0 });
  assert.deepEqual(takesPart(units, { ...settings, experience: { unitsPerAssignment: 4 } }), { requested: 8, capacity: 6, effective: 4, active: 0 });
  state.cores = 3;
  assert.deepEqual(takesPart(units, settings), { requested: 8, capacity: 3, effective: 3, active: 0 });
  await training.setMaxLocalWorkers(2);
  assert.deepEqual(takesPart(units, settings), { requested: 8, capacity: 2, effective: 2, active: 0 });
  // Work over input records is never divided.
  assert.deepEqual(takesPart({ ...units, workSource: { inputs: "dataset" } }, settings), { requested: 8, capacity: 1, effective: 1, active: 0 });
  assert.deepEqual(takesPart({ maxWorkers: 6 }, { workers: 8 }), { requested: 8, capacity: 1, effective: 1, active: 0 });
});

test("a job that was left and is offered again is an invitation again", () => {
  takesPart({}, {});
  const control = /** @type {any} */ (state.control);
  assert.deepEqual(training.getState().invitations, []);
  state.control = { ...control, peerJob: null };
  assert.deepEqual(training.getState().invitations, []);
  state.control = { ...control, peerJob: null, invitations: [JOB.id] };
  assert.deepEqual(training.getState().invitations.map((/** @type {any} */ [id, entry]) => [id, entry.state]), [[JOB.id, "invited"]]);
});

test("what was asked of a job when it was left is still served", async () => {
  await training.watch(JOB.id);
  answers[`/api/v1/jobs/${JOB.id}/leave`] = () => wireJob(JOB.id);
  answers[`/bytes/jobs/${JOB.id}/checkpoints/0`] = () => new Response("bytes");
  const checkpoint = training.exportCheckpoint();
  await training.leave();
  assert.equal(training.getState().job, undefined);
  await training.continueFromCheckpoint({ ...order(), checkpoint, datasetMode: "new" });
  const upload = control.find(([method]) => method === "upload")?.[1];
  assert.equal(upload.files.at(-1).name, "Digits-round-0.weei-checkpoint");
});

test("a browser that is the coordinator's device shows its job again after a reload, or what a participant may see", async () => {
  training.followPeer({ ...JOB, role: "coordinator" });
  await until(() => training.getState().job);
  assert.equal(training.getState().job?.role, "coordinator");
  await training.watch(null);
  answers[`/api/v1/jobs/${JOB.id}`] = () => problem(401, "unauthorized");
  answers["/api/v1/peer/job"] = () => ({ job: wireJob(JOB.id, { role: "participant", queue: null, peers: [] }) });
  answers["/api/v1/peer/job/checkpoints"] = () => [];
  training.followPeer({ ...JOB, role: "coordinator" });
  await until(() => training.getState().job);
  assert.deepEqual([training.getState().job?.role, training.getState().error], ["participant", undefined]);
  training.followPeer(null);
  await until(() => !training.getState().job);
});

test("a job opened here is shown until this browser is not its device any more, one that is watched until it is told otherwise", async () => {
  const device = { ...JOB, role: "coordinator" };
  await training.openJob(JOB.id);
  training.followPeer(null);
  assert.equal(training.getState().job?.id, JOB.id, "not yet told of it");
  const before = calls.length;
  training.followPeer(device);
  await until(() => calls.length > before);
  assert.equal(training.getState().job?.id, JOB.id, "shown all the time");
  training.followPeer(null);
  await until(() => !training.getState().job);
  await training.watch(JOB.id);
  training.followPeer(device);
  training.followPeer(null);
  assert.equal(training.getState().job?.id, JOB.id);
});

test("a job that was left is not shown again by what was last told of this browser", async () => {
  storage.setPeer({ peerId: "me", token: "t" });
  answers[`/api/v1/jobs/${JOB.id}/leave`] = () => wireJob(JOB.id);
  const device = { ...JOB, role: "coordinator" };
  await training.openJob(JOB.id);
  training.followPeer(device);
  const leaving = training.leave();
  training.followPeer({ ...device, round: 9 });
  await leaving;
  assert.ok(control.findIndex(([method]) => method === "poll") < control.findLastIndex(([method]) => method === "watch"));
  training.followPeer(null);
  await settled();
  assert.equal(training.getState().job, undefined);
});

test("the inventory tells what the server and this browser keep", async () => {
  const server = { bytes: 10, uploads: 0, uploadBytes: 0, jobs: [] };
  answers["/api/v1/storage"] = () => server;
  assert.deepEqual(await training.getStorageInventory(), { server, browser: { files: 2, bytes: 30, quotaBytes: 1000, usedBytes: 40 } });
});

test("a token that the server forgot is replaced once", async () => {
  storage.setPeer({ peerId: "old", token: "old" });
  answers["/api/v1/invitations/open"] = () => (identity.known()?.peerId === "old" ? problem(401, "unauthorized") : { jobId: JOB.id, state: "invited" });
  await training.openInvitation("x");
  assert.notEqual(identity.known()?.peerId, "old");
  answers["/api/v1/invitations/open"] = () => problem(401, "unauthorized");
  await assert.rejects(training.openInvitation("x"), { code: "unauthorized" });
});

test("choices for this device are remembered, and bad ones refused (C69)", async () => {
  await training.setMaxLocalWorkers(3);
  assert.equal(training.getState().maxLocalWorkers, 3);
  assert.equal(storage.preferences(2).maxLocalWorkers, 3);
  for (const bad of [0, -1, NaN, 2.5]) await assert.rejects(training.setMaxLocalWorkers(bad), /whole number/);
  await assert.rejects(training.setBackendPreference(/** @type {any} */ ("tpu")), /auto, cpu, gpu, hybrid/);
  assert.equal(training.getState().maxLocalWorkers, 3);
  assert.equal(new DeviceStorage(undefined).preferences("unknown").maxLocalWorkers, 1);
  assert.equal(new DeviceStorage(undefined).preferences(128).maxLocalWorkers, 64);
});

test("a storage that throws costs the memory, not the page", () => {
  const broken = new DeviceStorage(/** @type {any} */ ({ getItem: () => null, setItem: () => { throw new Error("full"); } }));
  broken.setPeer({ peerId: "p", token: "t" });
  assert.equal(broken.peer()?.peerId, "p");
});

test("the cookie of this port's server is the one that counts", () => {
  const cookies = "a=b; weei_csrf_8000=one; weei_csrf_8001=two=2";
  assert.deepEqual([cookieToken(cookies, "8001"), cookieToken(cookies, "80"), cookieToken("", "80")], ["two=2", undefined, undefined]);
  assert.equal(cookieToken(`${cookies}; __Host-weei_csrf=safe`, "443"), "safe");
});

test("a control Worker that dies rejects every call", async () => {
  /** @type {any} */
  const worker = { postMessage() {}, terminate() {} };
  /** @type {string[]} */
  const told = [];
  const dying = new ControlClient(() => worker, ({ type }) => told.push(type));
  const pending = [dying.call("poll"), dying.call("leave")];
  worker.onerror({ message: "out of memory" });
  for (const call of pending) await assert.rejects(call, (error) => error instanceof CommandError && /out of memory/.test(error.message));
  assert.deepEqual(told, ["died"]);
});

test("files that the server holds, or that are the same, are not sent again", async () => {
  const tus = new FakeTus();
  /** @type {string[]} */
  const phases = [];
  answers["/api/v1/artifacts/held"] = ({ hashes }) => ({ held: [hashes[0]] });
  const uploads = new FileUploads([file("a"), file("b"), file("b2", "b"), file("c")], { http, changed: (progress) => phases.push(progress.map(({ phase }) => phase).join()), httpStack: tus });
  const done = await uploads.run();
  assert.deepEqual(uploads.progress.map(({ phase }) => phase), ["held", "done", "held", "done"]);
  assert.equal(tus.log.length, 2);
  assert.equal(done[1]?.sha256, done[2]?.sha256);
  assert.equal(phases[0], "hashing,hashing,hashing,hashing");
});

test("the file that could not be sent is the one that tells why", async () => {
  answers["/api/v1/artifacts/held"] = () => ({ held: [] });
  const tus = new FakeTus([{ status: 413, problem: { title: "At most 256 MB.", code: "too_large" } }]);
  const uploads = new FileUploads([file("a"), file("b")], { http, changed: () => {}, httpStack: tus });
  await assert.rejects(uploads.run(), { code: "too_large" });
  assert.equal(uploads.progress.filter(({ error }) => error === "At most 256 MB.").length, 1);
});

test("what failed stands in the debug log, which can be read, exported and deleted", async () => {
  answers[`/api/v1/jobs/${JOB.id}`] = () => problem(404, "not_found");
  await assert.rejects(training.openJob(JOB.id));
  const [event] = training.getDebugLog();
  assert.deepEqual([event?.event, event?.details], ["error", { message: "Refused: not_found." }]);
  assert.deepEqual(JSON.parse(await training.exportDebugLog().text()).events, training.getDebugLog());
  training.clearDebugLog();
  assert.deepEqual(training.getDebugLog(), []);
});

test("lists are read to their last page", async () => {
  const pages = [["a", "b"], ["c"], []];
  answers["/api/v1/jobs"] = (_body, query) => {
    const at = Number(query.get("cursor") ?? 0);
    const headers = at + 1 < pages.length ? { Link: `</api/v1/jobs?limit=500&cursor=${at + 1}>; rel="next"` } : undefined;
    return Response.json(pages[at], { headers });
  };
  calls = [];
  assert.deepEqual(await training.listSavedJobs(), ["a", "b", "c"]);
  assert.equal(calls.length, 3);
});

test("a page that fails fails the list", async () => {
  answers["/api/v1/jobs"] = (_body, query) =>
    query.has("cursor") ? problem(422, "invalid") : Response.json([1], { headers: { Link: '</api/v1/jobs?cursor=1>; rel="next"' } });
  await assert.rejects(training.listSavedJobs(), { code: "invalid" });
});
