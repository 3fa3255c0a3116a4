/** Experience jobs from the server's first state to the update: a fake server, and Workers that really run `aux-echo`. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";

import { FakeSocket, settled, until } from "./fakes.js";
import { spawnNodeWorker } from "./node-worker.js";
import { assignment, JOB, ref, world } from "./world.js";

const models = new URL("../models/auxiliary/", import.meta.url);
const file = (/** @type {string} */ name) => new Uint8Array(readFileSync(new URL(name, models)));
const floats = (/** @type {number[]} */ ...values) => new Uint8Array(new Float32Array(values).buffer);
const MODULE = file("aux-echo.wasm");
const REWARD = file("reward.bin");
const START = floats(0.5, 1, 2, 3, 4, 5, 6);
const OLD = floats(8, 1, 2, 3, 4, 5, 6);
const NOW = floats(16, -1, -2, -3, -4, -5, -6);
const NEXT = floats(32, 0, 0, 0, 0, 0, 0);

const JOB_OF_UNITS = {
  ...JOB,
  name: "Echo",
  module: { fileName: "aux-echo.wasm", ...ref(MODULE) },
  auxiliary: [{ id: "reward", fileName: "reward.bin", ...ref(REWARD) }],
  unit: { id: "step", label: "Steps" },
  workers: 3,
};
const slots = (/** @type {Uint8Array} */ old) => [
  { id: "reward", ...ref(REWARD) },
  { id: "start", ...ref(START) },
  { id: "old", ...ref(old) },
];
const SEED = "18446744073709551615";

/** Units 100 to 109 of round 4 in three ranges. @param {object} [change] */
const units = (change = {}) =>
  assignment({
    chunkId: "units-100-110",
    exampleCount: 10,
    moduleSha256: JOB_OF_UNITS.module.sha256,
    weights: ref(NOW),
    data: null,
    experience: { seed: SEED, unitStart: 100, unitCount: 10 },
    seed: SEED,
    split: 3,
    auxiliary: slots(OLD),
    ...change,
  });
/** The golden division of these units. */
const RANGES = /** @type {[bigint, number, number][]} */ ([[18446744073709551615n, 100, 4], [9295521113707562366n, 104, 3], [14213172062623312801n, 107, 3]]);

/** What the ranges learn, by the rule that tests/models/auxiliary/__init__.py gives. @param {Uint8Array} old */
function expectedUpdate(old) {
  const value = (/** @type {Uint8Array} */ bytes) => new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true);
  const learnt = RANGES.map(([seed, unitStart, unitCount]) => {
    const grown = [4, unitStart, unitCount, Number(seed % 65521n), value(REWARD), value(START), value(old)];
    return new Float32Array(NOW.buffer).map((weight, i) => weight + Number(grown[i]));
  });
  const merged = learnt[0]?.map((_, i) => learnt.reduce((sum, weights, k) => sum + Number(RANGES[k]?.[2]) * Number(weights[i]), 0) / 10);
  return createHash("sha256").update(/** @type {Float32Array} */ (merged)).digest("hex");
}

/** @type {ReturnType<typeof world>[]} */
const worlds = [];
/** @param {Parameters<typeof world>[0]} [options] */
function make(options = {}) {
  const here = world(options);
  for (const bytes of [MODULE, REWARD, START, OLD, NOW, NEXT]) here.bytes.set(ref(bytes).sha256, bytes);
  here.answers["/api/v1/peer/ready"] = () => here.state({ job: JOB_OF_UNITS });
  here.connect();
  worlds.push(here);
  return here;
}
afterEach(() => {
  for (const { session } of worlds.splice(0)) session.stop();
});

const bytesOf = (/** @type {Uint8Array[]} */ ...list) => list.map((bytes) => `/bytes/jobs/${JOB.id}/${ref(bytes).sha256}`);
const reports = (/** @type {import("./fakes.js").FakeTus} */ tus) =>
  tus.log.map(({ sha256, headers }) => {
    const report = /report ([^,]*)/.exec(String(headers["Upload-Metadata"]))?.[1];
    return { sha256, report: JSON.parse(Buffer.from(String(report), "base64").toString()) };
  });

test("a file slot is fetched after the module and before the server is told", async () => {
  const here = make({ spawn: spawnNodeWorker, cores: 8, maxLocalWorkers: 3 });
  here.says({ job: { ...JOB_OF_UNITS, ready: false, state: "approved" } });
  await until(() => here.stage() === "waiting" && here.posted("/api/v1/peer/ready").length);
  assert.deepEqual(here.paths(), [...bytesOf(MODULE, REWARD), "/api/v1/peer/ready"]);
  assert.deepEqual(here.posted("/api/v1/peer/ready")[0]?.body, {
    jobId: JOB.id,
    moduleSha256: JOB_OF_UNITS.module.sha256,
    auxiliary: { reward: ref(REWARD).sha256 },
    workers: 3,
  });
});

test("a file that the module does not declare is not fetched, and the model is refused", async () => {
  const here = make({ spawn: spawnNodeWorker });
  here.answers["/api/v1/peer/load-failed"] = () => here.state({ job: { ...JOB_OF_UNITS, ready: false, state: "modelLoadFailed" } });
  here.says({ job: { ...JOB_OF_UNITS, ready: false, auxiliary: [{ id: "extra", ...ref(REWARD) }] } });
  await until(() => here.posted("/api/v1/peer/load-failed").length);
  assert.match(here.posted("/api/v1/peer/load-failed")[0]?.body.reason, /auxiliary weights extra, which the model does not declare/);
  assert.deepEqual(here.paths(), [...bytesOf(MODULE), "/api/v1/peer/load-failed"]);
});

for (const cores of [8, 1]) {
  test(`a divided assignment becomes one update, the same on ${cores} cores`, async () => {
    const here = make({ spawn: spawnNodeWorker, cores, maxLocalWorkers: 8 });
    here.says({ job: { ...JOB_OF_UNITS, workers: 1 }, assignment: units() });
    await until(() => here.tus.log.length && here.stage() === "awaitingAggregation");
    // Snapshots come right before the weights of their round.
    assert.deepEqual(here.paths(), bytesOf(MODULE, REWARD, START, OLD, NOW));
    const [sent] = reports(here.tus);
    assert.equal(sent?.sha256, expectedUpdate(OLD));
    const { metrics, ...counts } = /** @type {any} */ (sent).report;
    assert.deepEqual(counts, { round: 4, examplesProcessed: 10, uniqueExamples: 10, optimizerSteps: 10 });
    assert.deepEqual([metrics.unitStart, metrics.unitCount, metrics.old], [(4 * 100 + 3 * 104 + 3 * 107) / 10, 3.4, 8]);
    const { processedExamples, totalExamples } = here.session.state().participation;
    assert.deepEqual([processedExamples, totalExamples], [10, 10]);
  });
}

test("the next round fetches only the version that is not held", async () => {
  const here = make({ spawn: spawnNodeWorker });
  here.says({ job: { ...JOB_OF_UNITS, workers: 1 }, assignment: units() });
  await until(() => here.stage() === "awaitingAggregation");
  const before = here.paths().length;
  const next = { attemptId: "11111111-1111-4111-8111-111111111111", auxiliary: slots(NEXT), weights: ref(NEXT) };
  here.says({ job: { ...JOB_OF_UNITS, workers: 1 }, assignment: units(next) });
  await until(() => here.tus.log.length === 2);
  // The snapshot is these weights too: they are fetched once.
  assert.deepEqual(here.paths().slice(before), bytesOf(NEXT));
});

test("when no unit was finished the update is the start weights, and weighs nothing (C06)", async () => {
  const here = make({ spawn: spawnNodeWorker });
  const settings = '{"localEpochs":1,"batchSize":9}';
  here.says({ job: { ...JOB_OF_UNITS, workers: 1 }, assignment: units({ settings }) });
  await until(() => here.tus.log.length);
  const [sent] = reports(here.tus);
  assert.equal(sent?.sha256, ref(NOW).sha256);
  assert.deepEqual([sent?.report.uniqueExamples, sent?.report.metrics], [0, {}]);
});

const refused = /** @type {const} */ ([
  ["a division that does not fit its units", { split: 11 }, "split must be from 1 to the 10 units of the assignment; found 11."],
  [
    "a slot that is not filled",
    { auxiliary: slots(OLD).slice(0, 2) },
    "The assignment must fill the slots that the model declares: reward, start, old; found: reward, start.",
  ],
]);
for (const [what, change, reason] of refused) {
  test(`${what} fails the attempt with a sentence`, async () => {
    const here = make({ spawn: spawnNodeWorker });
    const path = `/api/v1/peer/attempts/${units().attemptId}/failed`;
    here.answers[path] = () => here.state({ job: JOB_OF_UNITS });
    here.says({ job: { ...JOB_OF_UNITS, workers: 1 }, assignment: units(change) });
    await until(() => here.posted(path).length);
    assert.equal(here.posted(path)[0]?.body.reason, reason);
  });
}

test("this device runs as many Workers as the assignment has ranges, within its limit, and says so", async () => {
  const here = make({ cores: 4, maxLocalWorkers: 2 });
  here.says({ job: { ...JOB_OF_UNITS, workers: 1, auxiliary: [] }, assignment: units({ auxiliary: [] }) });
  await until(() => here.workers.length === 2);
  const state = here.session.state();
  assert.equal(state.activeWorkers, 2);
  assert.equal(state.snapshot?.execution.activeWorkers, 2);
  assert.equal(state.snapshot?.execution.workerLimit, 2);
  here.says({ job: { ...JOB_OF_UNITS, workers: 1, pausedByPeer: true } });
  await settled();
  assert.deepEqual(here.workers.map(({ terminated }) => terminated), [true, true]);
  assert.equal(here.session.state().activeWorkers, 0);
});

/** @param {ReturnType<typeof world>} here */
const told = (here) => here.posted("/api/v1/peer/ready").map(({ body }) => body.workers);

test("a job that is ready is told this device's Workers once, and again when its limit changes", async () => {
  const here = make({ cores: 4, maxLocalWorkers: 8 });
  here.says({ job: JOB_OF_UNITS });
  here.says({ job: JOB_OF_UNITS });
  await until(() => told(here).length);
  await settled();
  assert.deepEqual(told(here), [4]);
  const chosen = (/** @type {number} */ maxLocalWorkers) => here.session.setPreferences({ maxLocalWorkers, backendPreference: "auto", gpuMemoryBudgetMiB: 1024 });
  chosen(2);
  await until(() => told(here).length === 2);
  chosen(2);
  FakeSocket.last.says({ type: "state", ...here.state({ job: JOB_OF_UNITS }) });
  await settled();
  assert.deepEqual(told(here), [4, 2]);
});

test("without a core count the limit is what is told (C69)", async () => {
  const here = make({ cores: "unknown", maxLocalWorkers: 6 });
  here.says({ job: JOB_OF_UNITS });
  await until(() => told(here).length);
  assert.deepEqual(told(here), [6]);
});

test("nothing is told where it changes nothing: a dataset job, one Worker per device, a page that only watches", async () => {
  const here = make();
  here.says({ job: { ...JOB, unit: null, workers: 3 } });
  here.says({ job: { ...JOB_OF_UNITS, workers: 1 } });
  const watching = make({ train: false });
  watching.says({ job: JOB_OF_UNITS });
  await settled();
  assert.deepEqual([...told(here), ...told(watching)], []);
});

test("a refusal is not repeated", async () => {
  const here = make();
  here.answers["/api/v1/peer/ready"] = () => new Response('{"title":"Ended.","code":"job_ended"}', { status: 409, headers: { "Content-Type": "application/problem+json" } });
  here.says({ job: JOB_OF_UNITS });
  await until(() => told(here).length);
  here.says({ job: JOB_OF_UNITS });
  await settled();
  assert.equal(told(here).length, 1);
});
