import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { compileModule } from "../../static/weei/host/module.js";
import { WorkerPool } from "../../static/weei/training/pool.js";
import { settled } from "./fakes.js";
import { spawnNodeWorker } from "./node-worker.js";

const binaries = new URL("../hosts/modules/binaries/", import.meta.url);
const compiled = (/** @type {string} */ name) => compileModule(new Uint8Array(readFileSync(new URL(`${name}.wasm`, binaries))));
const weights = new Blob([new Float32Array([1, -2, 0.5, 7])]);
const forever = () => ({ stallMinutes: 10, signal: new AbortController().signal });
/** @param {number[]} counts units of each range */
const works = (counts) => counts.map((unitCount, k) => ({ settings: "{}", round: 1, experience: { seed: String(k), unitStart: 10 * k, unitCount } }));
const model = /** @type {any} */ ({ module: {}, weights, auxiliary: [] });

/** A Worker that does what the test says, when it says so. */
class FakeWorker {
  /** @type {any} */ said = null;
  terminated = false;
  /** @type {any} */ onmessage = null;
  /** @type {any} */ onerror = null;

  /** @param {any} message */
  postMessage(message) {
    this.said = message;
  }

  terminate() {
    this.terminated = true;
  }

  /** The first unit of the range it plays now. */
  get range() {
    return this.said?.inputs.work.experience.unitStart;
  }

  /** @param {string} type @param {object} [body] */
  says(type, body = {}) {
    const { id } = this.said;
    this.said = null;
    this.onmessage({ data: { type, id, ...body } });
  }

  /** @param {number} [uniqueExamples] */
  finishes(uniqueExamples = this.said.inputs.work.experience.unitCount) {
    const result = { weights: { pointer: 0, bytes: 16 }, metrics: {}, examplesProcessed: uniqueExamples, uniqueExamples };
    this.says("result", { weights: new Blob([`${this.range}`]), result, info: { id: "toy", version: "1" } });
  }
}

/** @param {number} limit */
function poolOf(limit) {
  /** @type {FakeWorker[]} */
  const workers = [];
  const allowed = { limit };
  const pool = new WorkerPool(
    () => {
      const worker = new FakeWorker();
      workers.push(worker);
      return /** @type {any} */ (worker);
    },
    () => allowed.limit,
  );
  return { pool, workers, allowed, worker: (/** @type {number} */ k) => /** @type {FakeWorker} */ (workers[k]) };
}

const texts = (/** @type {{weights: Blob}[]} */ results) => Promise.all(results.map((result) => result.weights.text()));

test("plays as many ranges at once as this device may, the rest as Workers get free, and answers in range order", async () => {
  const { pool, workers, worker } = poolOf(2);
  const training = pool.train(model, works([3, 3, 2, 2]), forever());
  assert.deepEqual(workers.map(({ range }) => range), [0, 10]);
  assert.equal(pool.active, 2);
  worker(1).finishes();
  await settled();
  assert.deepEqual(workers.map(({ range }) => range), [0, 20]);
  worker(1).finishes();
  await settled();
  worker(1).finishes();
  await settled();
  assert.equal(pool.active, 1);
  worker(0).finishes();
  assert.deepEqual(await texts(await training), ["0", "10", "20", "30"]);
  assert.equal(pool.active, 0);
});

test("several real Workers give what one gives", async () => {
  const module = await compiled("plus_one");
  const played = [];
  for (const limit of [3, 1]) {
    const pool = new WorkerPool(spawnNodeWorker, () => limit);
    const results = await pool.train({ module, weights, auxiliary: [] }, works([3, 2, 2]), forever());
    played.push(results.map(({ result, info }) => ({ ...result, id: info.id })));
    assert.deepEqual(new Float32Array(await /** @type {any} */ (results[2]).weights.arrayBuffer()), new Float32Array([2, -1, 1.5, 8]));
    pool.terminate();
  }
  assert.deepEqual(played[0], played[1]);
  assert.deepEqual(played[0]?.map(({ uniqueExamples }) => uniqueExamples), [3, 2, 2]);
});

test("a dead Worker's range is played again once the others are done, alone in a new Worker", async () => {
  const { pool, workers, worker } = poolOf(3);
  const training = pool.train(model, works([1, 1, 1]), forever());
  worker(1).onerror({});
  await settled();
  assert.deepEqual(workers.map(({ range }) => range), [0, 10, 20]);
  worker(0).finishes();
  worker(2).finishes();
  await settled();
  assert.deepEqual(workers.slice(0, 3).map(({ terminated }) => terminated), [true, true, true]);
  assert.equal(workers.length, 4);
  assert.equal(worker(3).range, 10);
  worker(3).finishes();
  assert.deepEqual(await texts(await training), ["0", "10", "20"]);
});

test("a range that is lost twice fails the assignment", async () => {
  const { pool, worker } = poolOf(1);
  const training = pool.train(model, works([1]), forever());
  worker(0).onerror({ message: "gone" });
  await settled();
  worker(1).onerror({ message: "gone again" });
  await assert.rejects(training, { code: "worker", message: "The training Worker failed: gone again." });
  assert.equal(pool.active, 0);
});

for (const code of ["memory_limit", "alloc_failed"]) {
  test(`a range that found no memory beside the others is played again: ${code} (C62)`, async () => {
    const { pool, worker } = poolOf(2);
    const training = pool.train(model, works([1, 1]), forever());
    worker(1).says("failed", { code, message: "No room." });
    worker(0).finishes();
    await settled();
    worker(2).finishes();
    assert.deepEqual(await texts(await training), ["0", "10"]);
  });
}

test("a module's failure ends all Workers and is not tried again", async () => {
  const { pool, workers, worker } = poolOf(2);
  const training = pool.train(model, works([1, 1, 1]), forever());
  worker(1).says("failed", { code: "trap", message: "train failed in module toy." });
  await assert.rejects(training, { code: "trap" });
  assert.deepEqual(workers.map(({ terminated }) => terminated), [true, true]);
  assert.equal(pool.active, 0);
});

test("each Worker has its own watchdog", async () => {
  const { pool, worker } = poolOf(2);
  const training = pool.train(model, works([1, 1]), { ...forever(), stallMinutes: 0.01 });
  const alive = setInterval(() => worker(0).onmessage({ data: { type: "progress", id: 1, report: { processedExamples: 0 } } }), 50);
  await assert.rejects(training, { code: "stalled" });
  clearInterval(alive);
  assert.equal(worker(0).terminated, true);
});

test("an abort ends all Workers at once", async () => {
  const { pool, workers } = poolOf(3);
  const abort = new AbortController();
  const training = pool.train(model, works([1, 1, 1]), { ...forever(), signal: abort.signal });
  abort.abort(new Error("paused"));
  assert.deepEqual(workers.map(({ terminated }) => terminated), [true, true, true]);
  await assert.rejects(training, { message: "paused" });
  assert.equal(pool.active, 0);
  await assert.rejects(pool.train(model, works([1]), { ...forever(), signal: abort.signal }), { message: "paused" });
});

test("a lower limit ends the Workers that are too many", async () => {
  const { pool, workers, allowed, worker } = poolOf(3);
  const first = pool.train(model, works([1, 1, 1]), forever());
  workers.forEach((each) => each.finishes());
  await first;
  allowed.limit = 1;
  const second = pool.train(model, works([1, 1]), forever());
  assert.deepEqual(workers.map(({ terminated }) => terminated), [false, true, true]);
  worker(0).finishes();
  await settled();
  worker(0).finishes();
  assert.deepEqual(await texts(await second), ["0", "10"]);
  assert.equal(workers.length, 3);
});

test("progress is that of all ranges together, and a finished range counts what it says at its end", async () => {
  const { pool, worker } = poolOf(2);
  /** @type {object[]} */
  const heard = [];
  const training = pool.train(model, works([3, 2]), { ...forever(), onProgress: (report) => heard.push(report) });
  worker(0).onmessage({ data: { type: "progress", id: 1, report: { processedExamples: 1, totalExamples: 3, optimizerSteps: 1 } } });
  worker(1).finishes();
  worker(0).finishes();
  await training;
  assert.deepEqual(heard, [
    { processedExamples: 1, totalExamples: 5, optimizerSteps: 1 },
    { processedExamples: 3, totalExamples: 5, optimizerSteps: 1 },
    { processedExamples: 5, totalExamples: 5 },
  ]);
});

test("more finished units than the range has are refused (C21)", async () => {
  const { pool, worker } = poolOf(1);
  const training = pool.train(model, works([2, 2]), forever());
  worker(0).finishes(3);
  await assert.rejects(training, { code: "invalid_result", message: "train returned uniqueExamples 3; it was given 2 units." });
});

test("a module is asked once what it is", async () => {
  let spawned = 0;
  const pool = new WorkerPool(
    () => {
      spawned += 1;
      return spawnNodeWorker();
    },
    () => 1,
  );
  const module = await compiled("plus_one");
  assert.equal((await pool.inspect(module, forever())).name, "Plus one");
  pool.terminate();
  assert.equal((await pool.inspect(module, forever())).name, "Plus one");
  assert.equal(spawned, 1);
});
