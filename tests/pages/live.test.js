// What the live chart draws, and what stands beside the settings of this device.
import assert from "node:assert/strict";
import test from "node:test";
import { usedTexts } from "../../static/pages/device.js";
import { lastValue, tableOf } from "../../static/pages/live_table.js";

const point = (/** @type {number} */ at, /** @type {number} */ loss) => ({ at, values: { loss } });

test("times of all participants are one column, and another's time is no gap", () => {
  const table = tableOf([[point(1000, 3), point(3000, 2)], [point(2000, 5)]], "loss");
  assert.deepEqual(table, { times: [1, 2, 3], lines: [[3, undefined, 2], [undefined, 5, undefined]] });
});

test("ten seconds without a value are a gap, and so is a report without this metric", () => {
  assert.deepEqual(tableOf([[point(0, 3), point(10_000, 2)]], "loss").lines, [[3, 2]]);
  assert.deepEqual(tableOf([[point(0, 3), point(10_001, 2)]], "loss"), { times: [0, 0.001, 10.001], lines: [[3, null, 2]] });
  assert.deepEqual(tableOf([[point(0, 3), { at: 2000, values: {} }, point(4000, 2)]], "loss").lines, [[3, null, 2]]);
});

test("the newest value is the last one that was reported, never 0", () => {
  assert.equal(lastValue([point(0, 3), { at: 1, values: {} }], "loss"), 3);
  assert.equal(lastValue([], "loss"), undefined);
});

const unknownGpu = { webgpu: "available", adapter: "unknown", memoryBudgetMiB: 1024, initializationError: "unknown" };
/** @param {object} change */
const deviceOf = (change) => usedTexts(/** @type {any} */ ({ execution: { actual: "unknown", fallback: "" }, diagnostics: {}, myPeerId: "me", ...change }));

test("beside each setting stands what is used, and nothing where nothing is known", () => {
  assert.deepEqual(deviceOf({}), { workers: "", backend: "—", gpu: "—" });
  const used = deviceOf({
    job: { localWorkers: { requested: 4, capacity: 2, effective: 2, active: 1 } },
    execution: { actual: "cpu", fallback: "This browser has no WebGPU." },
    diagnostics: { me: { gpu: { ...unknownGpu, webgpu: "unavailable" } } },
  });
  assert.equal(used.workers, "(2 for the next assignment: the job asks for 4; its model and this device allow 2)");
  assert.equal(used.backend, "CPU, because: This browser has no WebGPU.");
  assert.equal(used.gpu, "this browser has no WebGPU");
});

test("a GPU that was tried says how that ended", () => {
  const gpu = (/** @type {object} */ change) => deviceOf({ diagnostics: { me: { gpu: { ...unknownGpu, ...change } } } }).gpu;
  assert.equal(gpu({}), "adapter not named, not tried yet");
  assert.equal(gpu({ adapter: { vendor: "google", architecture: "swiftshader" }, initializationError: null }), "google swiftshader, ready");
  assert.equal(gpu({ initializationError: "The GPU did not answer." }), "The GPU did not answer.");
});
