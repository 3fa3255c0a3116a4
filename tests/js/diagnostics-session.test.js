/** When a device tells what it measures, and what is counted as which stage: a real session, whose server, Worker and clock are the test's. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";

import { DiagnosticsBoard } from "../../static/weei/api/diagnostics.js";
import { FakeClock, FakeSocket, settled, until } from "./fakes.js";
import { assignment, DATA, JOB, world } from "./world.js";

const { whole } = JSON.parse(readFileSync(new URL("../golden/diagnostics.json", import.meta.url), "utf8"));

/** @type {ReturnType<typeof world>[]} */
const worlds = [];
const make = (/** @type {Parameters<typeof world>[0]} */ options = {}) => {
  const made = world(options);
  worlds.push(made);
  return made;
};
afterEach(() => {
  for (const { session } of worlds.splice(0)) session.stop();
});

/** What went out over the newest socket. @returns {import("../../static/weei/types.js").Snapshot[]} */
const told = () => FakeSocket.last.sent.filter(({ type }) => type === "diagnostics").map(({ snapshot }) => snapshot);
const newest = () => told().at(-1);

/** Every stage that is entered, also those that are over before the next snapshot. @param {ReturnType<typeof world>} here */
function stagesOf({ session: { diagnostics } }) {
  /** @type {string[]} */
  const stages = [];
  const enter = diagnostics.enter.bind(diagnostics);
  diagnostics.enter = (stage) => {
    if (stages.at(-1) !== stage) stages.push(stage);
    return enter(stage);
  };
  return stages;
}

/** In the middle of training. @param {Parameters<typeof world>[0]} [options] */
async function training(options) {
  const here = make(options);
  const stages = stagesOf(here);
  here.connect();
  here.says({ assignment: assignment() });
  await until(() => here.workers.at(-1)?.received.length);
  const worker = /** @type {any} */ (here.workers.at(-1));
  worker.says("stage", { stage: "training" });
  await until(() => here.stage() === "training");
  return { ...here, worker, stages };
}

test("tells every two seconds while it has a job, by the control Worker's own timers (C64)", (context) => {
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const { connect, says } = make();
  connect();
  context.mock.timers.tick(10_000);
  assert.equal(told().length, 0, "without a job there is nothing to tell");
  says({ job: { ...JOB, ready: true } });
  const before = told().length;
  // Five minutes in which the page, hidden as it is, does not run at all.
  for (let second = 0; second < 300; second += 1) context.mock.timers.tick(1_000);
  assert.equal(told().length - before, 150);
  const sequences = told().map(({ sequence }) => sequence);
  assert.deepEqual(sequences, [...new Set(sequences)].sort((a, b) => a - b));
  says({ job: null });
  const after = told().length;
  context.mock.timers.tick(10_000);
  assert.equal(told().length, after);
});

test("a hidden tab is not stale: what its Worker tells is never ten seconds old", (context) => {
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const { connect, says } = make();
  const clock = new FakeClock();
  const board = new DiagnosticsBoard({ now: clock.now, wall: clock.now });
  connect();
  says({ job: JOB });
  context.mock.timers.tick(2_000);
  for (let second = 0; second < 120; second += 1) {
    const count = told().length;
    context.mock.timers.tick(1_000);
    clock.move(1_000);
    const snapshot = newest();
    if (snapshot && told().length > count) board.receive("p", { snapshot });
    assert.notEqual(board.view(JOB.id).p?.stale, true, `after ${second} s`);
  }
  assert.equal(board.view(JOB.id).p?.stale, false);
});

test("tells each change of stage at once, without waiting for the two seconds", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const { worker, session } = await training();
  await until(() => newest()?.stage === "training");
  assert.equal(newest()?.execution.activeWorkers, 1);
  assert.equal(newest()?.assignment?.attemptId, assignment().attemptId);
  worker.finish();
  await until(() => newest()?.stage === "awaitingAggregation");
  assert.equal(newest()?.execution.activeWorkers, 0);
  session.diagnostics.fail("a reason");
  worlds[0]?.says({ job: { ...JOB, status: "completed" } });
});

test("sends a complete snapshot as soon as it is connected again, above the server's last number", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const { welcome } = await training();
  const sockets = FakeSocket.all.length;
  FakeSocket.last.drop(1006);
  await until(() => FakeSocket.all.length > sockets);
  FakeSocket.last.open();
  assert.deepEqual(told(), []);
  welcome({ sequence: 9_000 });
  await until(() => told().length);
  assert.ok(Number(told()[0]?.sequence) > 9_000);
  assert.deepEqual(Object.keys(told()[0] ?? {}).sort(), Object.keys(whole).sort());
  assert.deepEqual([told()[0]?.stage, told()[0]?.assignment?.round], ["training", 4]);
});

test("a page that was loaded again goes on above the server's last number", async () => {
  await training();
  const { connect, welcome, says } = make();
  connect();
  welcome({ sequence: 500 });
  says({ job: JOB });
  await until(() => told().length);
  assert.ok(Number(told()[0]?.sequence) > 500);
});

test("a coordinator ignores a lower number after a reconnection, and keeps the last one while the peer is away", () => {
  const clock = new FakeClock();
  const board = new DiagnosticsBoard({ now: clock.now, wall: clock.now });
  const at = (/** @type {number} */ sequence, stage = "training") => ({ ...whole, sequence, stage });
  const shown = () => /** @type {any} */ (board.view(whole.assignment.jobId).p);
  board.receive("p", { snapshot: at(40) });
  clock.move(1_000);
  board.receive("p", { snapshot: at(40), heldMs: 1_000, connected: false });
  assert.deepEqual([shown().connected, shown().stale, shown().ageMs, shown().sequence], [false, true, 1_000, 40]);
  board.receive("p", { snapshot: at(39, "waiting"), connected: true });
  assert.deepEqual([shown().connected, shown().stage, shown().sequence], [true, "training", 40]);
  board.receive("p", { snapshot: at(41, "uploading"), connected: true });
  assert.deepEqual([shown().stale, shown().stage, shown().ageMs], [false, "uploading", 0]);
});

test("a machine that slept, or a page that was frozen, is stale meanwhile and tells everything on waking (C75)", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const { clock, welcome } = await training();
  await until(() => newest()?.stage === "training");
  const board = new DiagnosticsBoard({ now: clock.now, wall: clock.now });
  board.receive("p", { snapshot: /** @type {any} */ (newest()) });
  const shown = () => /** @type {any} */ (board.view(JOB.id).p);
  clock.move(10_000);
  assert.equal(shown().stale, false);
  clock.move(3_590_000);
  assert.equal(shown().stale, true);
  const sockets = FakeSocket.all.length;
  context.mock.timers.tick(1_000);
  assert.equal(FakeSocket.all.length, sockets + 1, "the old connection is not trusted");
  FakeSocket.last.open();
  welcome({ sequence: shown().sequence });
  await until(() => told().length);
  board.receive("p", { snapshot: /** @type {any} */ (told()[0]) });
  assert.equal(shown().stale, false);
  assert.ok(shown().performance.currentExamplesPerSecond === null, "no speed is made up over an hour of sleep");
});

test("a tab beside the one that trains, and a page that only watches, tell nothing", async () => {
  const { session, says } = await training();
  FakeSocket.last.drop(4001);
  FakeSocket.last.open();
  worlds[0]?.welcome();
  says({ assignment: assignment() });
  await settled();
  assert.deepEqual([told(), session.state().snapshot], [[], null]);
  const watcher = make();
  watcher.connect();
  watcher.says({ job: { ...JOB, role: "coordinator", trains: false } });
  await settled();
  assert.deepEqual([told(), watcher.session.state().snapshot], [[], null]);
});

test("training is what passes inside train, the upload from its first byte to the receipt", async () => {
  const { clock, tus, worker, stage, session } = await training();
  tus.onRequest = () => clock.move(40);
  clock.move(300);
  worker.finish();
  await until(() => stage() === "awaitingAggregation");
  clock.move(7_000);
  const { timings } = /** @type {any} */ (session.state().snapshot);
  assert.deepEqual(timings, { preparationMs: 0, compilationMs: null, trainingMs: 300, uploadMs: 40 });
});

test("what is fetched is received; the module is compiled while preparing, and only the first time", async () => {
  const { stages, worker, says, workers, session } = await training();
  assert.deepEqual(stages, ["receiving", "preparing", "receiving", "preparing", "training"]);
  worker.finish();
  await until(() => session.state().participation.stage === "awaitingAggregation");
  says({ job: { ...JOB, round: 5 }, assignment: assignment({ attemptId: "11111111-1111-4111-8111-111111111111", round: 5 }) });
  await until(() => workers.flatMap(({ received }) => received).length > 1);
  assert.deepEqual(stages.slice(5), ["uploading", "awaitingAggregation", "receiving", "preparing"]);
});

test("one Worker that plays two ranges prepares in between, and that is no training", async () => {
  const units = { data: null, experience: { seed: "7", unitStart: 0, unitCount: 4 }, exampleCount: 4, split: 2 };
  const here = make({ cores: 1 });
  const { clock, session, workers } = here;
  here.connect();
  here.says({ assignment: assignment(units) });
  const played = () => workers[0]?.received.filter(({ type }) => type === "train") ?? [];
  const result = { weights: { pointer: 0, bytes: 16 }, metrics: {}, examplesProcessed: 2, uniqueExamples: 2 };
  for (const [range, prepared, trained] of /** @type {const} */ ([[1, 10, 100], [2, 3, 50]])) {
    await until(() => played().length === range);
    clock.move(prepared);
    workers[0]?.says("stage", { stage: "training" });
    await settled();
    clock.move(trained);
    workers[0]?.says("result", { weights: new Blob([new Uint8Array(16)]), result, info: { id: "plus-one", version: "1.0.0" } });
  }
  await until(() => session.state().participation.stage === "awaitingAggregation");
  const { timings, performance } = /** @type {any} */ (session.state().snapshot);
  assert.deepEqual([timings.preparationMs, timings.trainingMs], [13, 150]);
  assert.ok(Math.abs(performance.averageExamplesPerSecond - 4000 / 150) < 1e-9);
});

test("the GPU is asked once, only for a job in which this device trains, and training does not wait for it", async () => {
  let asked = 0;
  /** @type {(adapter: any) => void} */
  let answer = () => {};
  const gpu = {
    requestAdapter: () => {
      asked += 1;
      return new Promise((resolve) => void (answer = resolve));
    },
  };
  const { says, session, worker } = await training({ gpu });
  assert.equal(asked, 1);
  assert.deepEqual(session.state().snapshot?.gpu.initializationError, "unknown");
  answer({ info: { vendor: "intel", architecture: "", device: "", description: "" }, requestDevice: async () => ({ destroy() {} }) });
  await until(() => newest()?.gpu.initializationError === null);
  assert.deepEqual(newest()?.gpu.adapter, { vendor: "intel", architecture: "unknown", device: "unknown", description: "unknown" });
  worker.finish();
  says({ assignment: assignment({ attemptId: "11111111-1111-4111-8111-111111111111", round: 5 }) });
  assert.equal(asked, 1);
  const watcher = make({ gpu });
  watcher.connect();
  watcher.says({ job: { ...JOB, trains: false } });
  assert.equal(asked, 1);
});

test("the job's shaders and the package's backend are told", async () => {
  const wgsl = { present: true, sha256: ["ab".repeat(32)] };
  const here = make();
  here.connect();
  here.says({ job: { ...JOB, wgsl }, assignment: assignment({ backend: "cpu-wasm-simd" }) });
  await until(() => here.workers.at(-1)?.received.length);
  assert.equal(here.session.state().snapshot?.execution.backend, "unknown", "before it computes");
  here.workers.at(-1)?.says("stage", { stage: "training" });
  await until(() => here.stage() === "training");
  assert.equal(here.session.state().snapshot?.execution.backend, "cpu-wasm-simd");
  here.workers.at(-1)?.finish();
  await until(() => here.stage() === "awaitingAggregation");
  const { model, assignment: at } = /** @type {any} */ (here.session.state().snapshot);
  assert.deepEqual([model.wgsl, at.bytes], [wgsl, DATA.length]);
});
