/** What is told of a GPU without training on it, and why a device computes on the CPU all the same. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { fallbackReason, NOT_TRIED, probeGpu } from "../../static/weei/training/gpu.js";
import { Diagnostics } from "../../static/weei/training/snapshot.js";

const info = { vendor: "intel", architecture: "gen-12lp", device: "", description: "x".repeat(100_000) };
const shown = { vendor: "intel", architecture: "gen-12lp", device: "unknown", description: "x".repeat(100) };

/** @param {{info?: object, requestDevice?: () => Promise<any>}} [adapter] */
function gpuOf({ info: about = info, requestDevice } = {}) {
  let destroyed = 0;
  const device = { destroy: () => void (destroyed += 1) };
  const gpu = { requestAdapter: async () => ({ info: about, requestDevice: requestDevice ?? (async () => device) }) };
  return { gpu, destroyed: () => destroyed };
}

test("tells the adapter, gives its device back, and calls a success null", async () => {
  const { gpu, destroyed } = gpuOf();
  assert.deepEqual(await probeGpu(gpu), { adapter: shown, error: null });
  assert.equal(destroyed(), 1);
});

test("an adapter that hides all its names is unknown, and works", async () => {
  for (const hidden of [undefined, {}, { vendor: "", architecture: "", device: "", description: "" }]) {
    assert.deepEqual(await probeGpu(gpuOf({ info: hidden ?? {} }).gpu), { adapter: "unknown", error: null });
  }
});

test("what went wrong is a sentence, and what was found before it is kept", async () => {
  assert.deepEqual(await probeGpu({ requestAdapter: async () => null }), { adapter: "unknown", error: "This browser found no GPU that it may use." });
  const refused = gpuOf({ requestDevice: () => Promise.reject(new Error("Device lost.")) });
  assert.deepEqual(await probeGpu(refused.gpu), { adapter: shown, error: "Device lost." });
  for (const odd of [undefined, "", 51885088, {}, new Error("")]) {
    const { error } = await probeGpu({ requestAdapter: () => Promise.reject(odd) });
    assert.match(String(error), /^The GPU could not be used: .+\.$/, String(odd));
  }
  const { error } = await probeGpu({ requestAdapter: () => Promise.reject(new Error("e".repeat(100_000))) });
  assert.equal(error?.length, 300);
});

test("a driver that hangs is given up, and what it had said stays", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  for (const [gpu, adapter] of /** @type {const} */ ([
    [{ requestAdapter: () => new Promise(() => {}) }, "unknown"],
    [gpuOf({ requestDevice: () => new Promise(() => {}) }).gpu, shown],
  ])) {
    const probing = probeGpu(/** @type {any} */ (gpu), { limitMs: 3_000 });
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    context.mock.timers.tick(3_000);
    assert.deepEqual(await probing, { adapter, error: "The GPU did not answer within 3 seconds." });
  }
});

const able = { shaders: true, webgpu: /** @type {const} */ ("available"), gpu: { adapter: shown, error: null } };
for (const [name, change, reason] of /** @type {[string, Partial<Parameters<typeof fallbackReason>[0]>, RegExp | null][]} */ ([
  ["nothing was asked for", { requested: "auto" }, null],
  ["the CPU was asked for", { requested: "cpu" }, null],
  ["the job has no shaders", { requested: "gpu", shaders: false }, /no GPU shaders/],
  ["the browser has no WebGPU", { requested: "hybrid", webgpu: "unavailable" }, /no WebGPU/],
  ["the GPU failed", { requested: "gpu", gpu: { adapter: "unknown", error: "Device lost." } }, /^Device lost\.$/],
  ["it was not tried", { requested: "gpu", gpu: NOT_TRIED }, /trains on the CPU only/],
  ["it works", { requested: "gpu" }, /trains on the CPU only/],
])) {
  test(`the reason for the CPU when ${name}`, () => {
    const found = fallbackReason({ requested: "auto", ...able, ...change });
    if (reason) assert.match(String(found), reason);
    else assert.equal(found, null);
    assert.doesNotMatch(String(found), /unknown/);
  });
}

test("a reason is given only once the device has computed", () => {
  const environment = /** @type {const} */ ({ browser: "Firefox", browserVersion: "153", os: "Linux", logicalCores: 2, webgpu: "available" });
  const diagnostics = new Diagnostics({ environment, preferences: { maxLocalWorkers: 1, backendPreference: "gpu", gpuMemoryBudgetMiB: 512 } });
  assert.equal(diagnostics.take().execution.fallbackReason, null);
  diagnostics.enter("training");
  const { execution, gpu } = diagnostics.take();
  assert.deepEqual([execution.requested, execution.actual, execution.fallbackReason], ["gpu", "cpu", "The job has no GPU shaders."]);
  assert.deepEqual(gpu, { webgpu: "available", adapter: "unknown", memoryBudgetMiB: 512, initializationError: "unknown" });
});
