import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { compileModule } from "../../static/weei/host/module.js";
import { TrainingRunner } from "../../static/weei/training/runner.js";
import { spawnNodeWorker } from "./node-worker.js";

const binaries = new URL("../hosts/modules/binaries/", import.meta.url);
const compiled = (/** @type {string} */ name) => compileModule(new Uint8Array(readFileSync(new URL(`${name}.wasm`, binaries))));
const UNITS = { settings: "{}", round: 1, experience: { seed: "1", unitStart: 0, unitCount: 8 } };
const weights = new Blob([new Float32Array([1, -2, 0.5, 7])]);
const forever = () => ({ stallMinutes: 10, signal: new AbortController().signal });

/** @param {string} name */
const inputs = async (name) => ({ module: await compiled(name), weights, auxiliary: [], work: UNITS });

test("trains twice in one Worker, each on a fresh instance, from the same Blob (C57, C65)", async () => {
  const runner = new TrainingRunner(spawnNodeWorker);
  /** @type {string[]} */
  const stages = [];
  /** @type {number[]} */
  const progress = [];
  const events = { onStage: (/** @type {string} */ stage) => stages.push(stage), onProgress: (/** @type {{processedExamples: number}} */ report) => progress.push(report.processedExamples) };
  const first = await runner.train(await inputs("plus_one"), { ...forever(), ...events });
  const second = await runner.train(await inputs("plus_one"), forever());
  assert.deepEqual(new Float32Array(await first.weights.arrayBuffer()), new Float32Array([2, -1, 1.5, 8]));
  assert.deepEqual(await second.weights.arrayBuffer(), await first.weights.arrayBuffer());
  assert.deepEqual(stages, ["training"]);
  assert.deepEqual(progress, [8]);
  assert.equal(first.info.id, "plus-one");
  assert.equal(runner.busy, false);
  runner.terminate();
});

test("metrics that the module does not declare are no part of its update", async () => {
  const bytes = Buffer.from(readFileSync(new URL("plus_one.wasm", binaries)));
  const declared = bytes.indexOf('"id":"loss"');
  assert.ok(declared > 0);
  bytes.write('"id":"lost"', declared);
  const runner = new TrainingRunner(spawnNodeWorker);
  const { result } = await runner.train({ ...(await inputs("plus_one")), module: await compileModule(new Uint8Array(bytes)) }, forever());
  assert.deepEqual(result.metrics, {});
  const { result: honest } = await runner.train(await inputs("plus_one"), forever());
  assert.deepEqual(honest.metrics, { loss: 0.5 });
  runner.terminate();
});

test("inspecting tells what the module says of itself", async () => {
  const runner = new TrainingRunner(spawnNodeWorker);
  const { info } = await runner.inspect(await compiled("plus_one"), forever());
  assert.equal(info.name, "Plus one");
  runner.terminate();
});

for (const name of ["train_loops", "start_loops", "info_loops"]) {
  test(`the watchdog ends a module that shows no progress: ${name} (C58)`, async () => {
    const worker = spawnNodeWorker();
    const runner = new TrainingRunner(() => worker);
    await assert.rejects(runner.train(await inputs(name), { ...forever(), stallMinutes: 0.02 }), { code: "stalled", message: /no progress for 0\.02 minutes/ });
    await worker.ended;
    assert.equal(runner.busy, false);
  });
}

test("an abort ends the Worker at once, and the next run gets a new one", async () => {
  const runner = new TrainingRunner(spawnNodeWorker);
  const abort = new AbortController();
  const running = runner.train(await inputs("train_loops"), { ...forever(), signal: abort.signal, onStage: () => abort.abort(new Error("paused")) });
  await assert.rejects(running, { message: "paused" });
  const { result } = await runner.train(await inputs("plus_one"), forever());
  assert.equal(result.uniqueExamples, 8);
  runner.terminate();
});

test("a module's failure comes with its code, and its Worker is not used again (C57)", async () => {
  let spawned = 0;
  const runner = new TrainingRunner(() => {
    spawned += 1;
    return spawnNodeWorker();
  });
  await assert.rejects(runner.train(await inputs("unreachable"), forever()), { code: "trap", message: /train failed/ });
  await runner.inspect(await compiled("plus_one"), forever());
  assert.equal(spawned, 2);
  runner.terminate();
});

test("a Worker that dies without a message gets a sentence (C62)", async () => {
  /** @type {any} */
  const worker = { postMessage() {}, terminate() {} };
  const runner = new TrainingRunner(() => worker);
  const running = runner.train(await inputs("plus_one"), forever());
  worker.onerror({});
  await assert.rejects(running, { code: "worker", message: /training Worker failed: \S.*\./ });
});

test("one call at a time", async () => {
  /** @type {any} */
  const worker = { postMessage() {}, terminate() {} };
  const runner = new TrainingRunner(() => worker);
  const running = runner.inspect(await compiled("plus_one"), forever());
  assert.throws(() => runner.inspect(/** @type {any} */ ({}), forever()), { code: "busy" });
  runner.terminate();
  await assert.rejects(running, { code: "stopped" });
});
