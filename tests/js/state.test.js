import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";

import { DiagnosticsBoard } from "../../static/weei/api/diagnostics.js";
import { coordinated, LiveJob, takenPartIn } from "../../static/weei/api/live-job.js";
import { StateStore } from "../../static/weei/api/state.js";
import { DeviceStorage } from "../../static/weei/api/storage.js";
import { Http } from "../../static/weei/net/http.js";
import { FakeClock, settled, until } from "./fakes.js";
import { differences, fieldsOf, golden } from "./interfaces.js";
import { wireCheckpoint, wireJob } from "./wire.js";

const { client } = JSON.parse(readFileSync(new URL("../golden/messages.json", import.meta.url), "utf8"));
const SNAPSHOT = client.find((/** @type {any} */ message) => message.type === "diagnostics").snapshot;
const ID = SNAPSHOT.assignment.jobId;
const CHUNKS = ["c1", "c2", "c3", "c4"];

/** @type {string[]} */
let asked = [];
/** @type {any} */
let job;
/** Newest first. @type {any[]} */
let checkpoints = [];
/** @type {Record<string, string[]>} */
let orders = {};
/** @type {StateStore} */
let state;
/** @type {FakeClock} */
let mono;
/** @type {FakeClock} */
let wall;
/** @type {LiveJob} */
let live;

/** @param {URL} url */
function answer({ pathname, searchParams }) {
  if (pathname.endsWith("/chunks")) return { chunkIds: orders[searchParams.get("order") ?? ""] };
  if (!pathname.endsWith("/checkpoints")) return pathname === "/api/v1/peer/job" ? { job } : job;
  const before = Number(searchParams.get("before") ?? Infinity);
  return checkpoints.filter(({ artifact }) => artifact.round < before).slice(0, Number(searchParams.get("limit")));
}

beforeEach(() => {
  asked = [];
  job = wireJob(ID);
  checkpoints = [2, 1, 0].map((round) => wireCheckpoint(round));
  orders = { "": CHUNKS, 9: ["c4", "c3", "c2", "c1"] };
  mono = new FakeClock();
  wall = new FakeClock();
  wall.at = 1_764_421_200_000;
  const diagnostics = new DiagnosticsBoard({ now: mono.now, wall: wall.now });
  state = new StateStore({ diagnostics, preferences: new DeviceStorage(undefined).preferences(2), cores: 2 });
  const http = new Http({
    base: "http://server.test",
    headers: () => ({}),
    fetch: async (url) => {
      asked.push(String(url).replace("http://server.test", ""));
      return Response.json(answer(new URL(String(url))));
    },
  });
  const failed = (/** @type {unknown} */ error) => assert.fail(String(error));
  live = new LiveJob({ http, tell: (told) => void (state.told = told), failed });
});

/** @param {Record<string, any>} [change] */
const snapshot = (change = {}) => ({ ...SNAPSHOT, metrics: { loss: 0.5 }, ...change });

test("every field of the founding interfaces is there, with its type and unit", async () => {
  assert.deepEqual(differences(job, "TrainingJob", { wire: true }), []);
  for (const checkpoint of checkpoints) assert.deepEqual(differences(checkpoint, "CheckpointSummary", { wire: true }), []);
  checkpoints[0] = wireCheckpoint(2, {
    validation: "done",
    validationMetrics: { values: { loss: 0.25 }, examplesProcessed: 64 },
    validationError: "of the try before",
    aggregation: { method: "fedadam", step: 2, bytes: 32 },
    nextUnit: 64,
  });
  await live.follow(coordinated(ID));
  state.error = "The last error.";
  state.invitations.set("another", { state: "invited", jobId: "another" });
  const transfer = { jobId: ID, peerId: "me", artifactId: "a", direction: "send", bytes: 1, totalBytes: 2, bytesPerSecond: 1, remainingSeconds: 1 };
  state.control = /** @type {any} */ ({ peerId: "me", invitations: [], transfers: [transfer], transferErrors: { a: "gone" }, participation: { stage: "training" }, activeWorkers: 1 });
  state.diagnostics.receive("other", { snapshot: snapshot(), heldMs: 20 });
  const seen = state.get();
  assert.deepEqual(differences(seen, "TrainingState"), []);
  for (const [value, name] of /** @type {[any, string][]} */ ([
    [seen, "TrainingState"],
    [seen.job, "TrainingJob"],
    [seen.job?.progress, "JobProgress"],
    [seen.job?.checkpoints[2], "CheckpointSummary"],
    [seen.progress["other"], "PeerProgress"],
    [seen.transfers[0], "TransferProgress"],
    [seen.job?.slots[1], "RoundSlot"],
    [seen.job?.participants["other"], "ParticipantState"],
  ])) {
    const all = Object.keys(fieldsOf(name)).map((field) => field.replace(/\?$/, ""));
    assert.deepEqual(all.filter((field) => !(field in value)), [], `${name} lacks what it may have`);
  }
});

test("the empty state fits too, and the checker finds what does not", () => {
  assert.deepEqual(differences(state.get(), "TrainingState"), []);
  const wrong = { ...state.get(), peers: "none", busy: 1, more: true, ready: undefined };
  assert.deepEqual(differences(wrong, "TrainingState").sort(), ['.busy: 1 is no flag', ".more: not in TrainingState", '.peers: "none" is no list', ".ready: undefined is no true"]);
  assert.deepEqual(differences(1_764_421_200, "epochMs"), [": 1764421200 is no epochMs"]);
});

test("weei.d.ts declares the same fields", () => {
  const text = readFileSync(new URL("../../static/weei/weei.d.ts", import.meta.url), "utf8");
  for (const name of ["TrainingState", "TrainingJob", "CheckpointSummary", "PeerProgress", "TransferProgress", "RoundSlot", "ParticipantState", "TrainingMetrics", "TrainingSettings"]) {
    const body = new RegExp(`export interface ${name} \\{\\n(.*?)\\n\\}`, "s").exec(text)?.[1] ?? "";
    const declared = [...body.matchAll(/^ {2}(\w+\??):/gm)].map(([, field]) => field);
    assert.deepEqual(declared.sort(), Object.keys({ ...golden.founding[name], ...golden.ours[name] }).sort(), name);
  }
});

test("a queue and what remained are expanded by the order that they went by, each order asked for once", async () => {
  checkpoints[0] = wireCheckpoint(2, { remaining: { pass: 1, cursor: 3, order: 9, requeued: ["c4"] } });
  await live.follow(coordinated(ID));
  const seen = state.get().job;
  assert.deepEqual(seen?.queue, ["c1@0+64", "c3", "c4"]);
  assert.deepEqual(seen?.checkpoints.map(({ remaining }) => remaining), [CHUNKS, ["c2", "c3", "c4"], ["c4", "c1"]]);
  job = wireJob(ID, { queue: { pass: 1, cursor: 0, order: 9, requeued: [] } });
  await live.refresh();
  assert.deepEqual(state.get().job?.queue, ["c4", "c3", "c2", "c1"]);
  assert.equal(asked.filter((path) => path.includes("/chunks")).length, 2);
});

test("a copy is the reader's own", async () => {
  await live.follow(coordinated(ID));
  const seen = /** @type {any} */ (state.get());
  seen.job.queue.push("mine");
  seen.job.checkpoints[0].metrics.values.loss = 99;
  seen.job.checkpoints[0].remaining.length = 0;
  seen.job.checkpoints = [];
  seen.job.status = "mine";
  const again = state.get().job;
  assert.deepEqual([again?.status, again?.queue.length, again?.checkpoints[0]?.metrics.values["loss"], again?.checkpoints[0]?.remaining], ["running", 3, 1, CHUNKS]);
  assert.deepEqual(structuredClone(again), JSON.parse(JSON.stringify(again)));
});

test("checkpoints are read page by page, oldest first, and the newest are there before all are", async () => {
  checkpoints = Array.from({ length: 451 }, (_, index) => wireCheckpoint(450 - index));
  await live.follow(coordinated(ID));
  assert.equal(state.get().job?.checkpoints.at(-1)?.artifact.round, 450);
  await live.loadCheckpoints();
  const rounds = state.get().job?.checkpoints.map(({ artifact }) => artifact.round);
  assert.deepEqual(rounds, Array.from({ length: 451 }, (_, round) => round));
  assert.equal(state.get().checkpointsPage.complete, true);
  assert.deepEqual(asked.filter((path) => path.includes("/checkpoints")).length, 3);
});

test("a look reads what is new and what is being evaluated, and nothing else", async () => {
  checkpoints = Array.from({ length: 301 }, (_, index) => wireCheckpoint(300 - index));
  await live.follow(coordinated(ID));
  await live.loadCheckpoints();
  asked = [];
  checkpoints = [...Array.from({ length: 50 }, (_, index) => wireCheckpoint(350 - index)), ...checkpoints];
  checkpoints[345] = wireCheckpoint(5, { validation: "running" });
  job = wireJob(ID, { validating: [5] });
  await live.refresh();
  assert.equal(state.get().evaluating, true);
  assert.deepEqual(asked.slice(1).map((path) => path.split("?")[1]), ["limit=20", "limit=200&before=331", "limit=1&before=6"]);
  checkpoints[345] = wireCheckpoint(5, { validation: "done", validationMetrics: { values: { loss: 0 }, examplesProcessed: 1 } });
  job = wireJob(ID);
  await live.refresh();
  const seen = state.get();
  assert.deepEqual([seen.evaluating, seen.job?.checkpoints.length, seen.job?.checkpoints[5]?.validation], [false, 351, "done"]);
});

test("what was asked about a job before is not shown of the next one", async () => {
  const before = live.follow(coordinated(ID));
  job = wireJob("second", { role: "participant", queue: null, peers: [] });
  checkpoints = [wireCheckpoint(0, { remaining: null })];
  await Promise.all([before, live.follow(takenPartIn())]);
  await settled();
  const seen = state.get();
  assert.deepEqual([seen.job?.id, seen.job?.queue, seen.job?.checkpoints.map(({ remaining }) => remaining)], ["second", [], [[]]]);
  job = null;
  await live.refresh();
  assert.equal(state.get().job, undefined);
});

test("peers are the others that are connected", async () => {
  await live.follow(coordinated(ID));
  state.control = /** @type {any} */ ({ peerId: "me", invitations: [], participation: {} });
  assert.deepEqual(state.get().peers, ["other", "guest"]);
});

test("each peer's progress and metrics come from what it says of itself, each report once", () => {
  const { diagnostics } = state;
  diagnostics.receive("a", { snapshot: snapshot(), heldMs: 500 });
  diagnostics.receive("b", { snapshot: snapshot({ stage: "waiting", assignment: null }) });
  wall.move(1000);
  diagnostics.receive("a", { snapshot: snapshot({ sequence: 18 }) });
  const { performance } = SNAPSHOT;
  const later = { ...performance, processedExamples: 128, lastProgressAt: performance.lastProgressAt + 900, totalExamples: "unknown", currentExamplesPerSecond: null };
  diagnostics.receive("a", { snapshot: snapshot({ sequence: 19, performance: later, metrics: { loss: 0.25 } }) });
  diagnostics.receive("a", { snapshot: snapshot({ sequence: 3, metrics: { loss: 7 } }) });
  const seen = state.get();
  assert.deepEqual(seen.progress, { a: { processedExamples: 128, metrics: { loss: 0.25 }, updatedAt: wall.at } });
  assert.deepEqual(seen.liveMetrics, { a: [{ at: wall.at - 1500, values: { loss: 0.5 } }, { at: wall.at, values: { loss: 0.25 } }] });
  assert.ok(!("metrics" in /** @type {object} */ (seen.diagnostics["a"])), "diagnostics are those of the founding text");
  diagnostics.receive("a", { connected: false });
  assert.deepEqual(state.get().progress, {});
  diagnostics.clear();
  assert.deepEqual([state.get().liveMetrics, state.get().diagnostics], [{}, {}]);
});

test("points to draw are few enough to keep", () => {
  const { performance } = SNAPSHOT;
  for (let n = 0; n < 600; n += 1) {
    state.diagnostics.receive("a", { snapshot: snapshot({ sequence: n, performance: { ...performance, processedExamples: n }, metrics: { loss: n } }) });
  }
  const points = state.get().liveMetrics["a"] ?? [];
  assert.deepEqual([points.length, points[0]?.values, points.at(-1)?.values], [500, { loss: 100 }, { loss: 599 }]);
});

test("looks that are asked for together are one, and one more", async () => {
  await live.follow(coordinated(ID));
  await until(() => state.get().checkpointsPage.complete);
  asked = [];
  await Promise.all([live.refresh(), live.refresh(), live.refresh()]);
  await settled();
  assert.equal(asked.filter((path) => path === `/api/v1/jobs/${ID}`).length, 2);
});

test("a listener that throws keeps the state from nobody", () => {
  /** @type {unknown[]} */
  const reported = [];
  globalThis.reportError = (error) => void reported.push(error);
  let calls = 0;
  state.subscribe(() => {
    throw new Error("mine");
  });
  state.subscribe(() => void (calls += 1));
  state.changed();
  assert.deepEqual([calls, reported.length], [2, 2]);
});
