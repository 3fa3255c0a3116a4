import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";

import { Predictor } from "../../static/weei/api/predictor.js";
import { AbiHost } from "../../static/weei/host/abi.js";
import { compileModule } from "../../static/weei/host/module.js";
import { spawnNodeWorker } from "./node-worker.js";

const root = new URL("../../", import.meta.url);
const digits = new Uint8Array(readFileSync(new URL("reference_models/digits/digits.wasm", root)));
const binary = (/** @type {string} */ name) => new Blob([readFileSync(new URL(`tests/hosts/modules/binaries/${name}.wasm`, root))]);
const FOUR = new Blob([new Float32Array([1, -2, 0.5, 7])]);

/** @type {Predictor[]} */
const predictors = [];
afterEach(() => predictors.splice(0).forEach((predictor) => predictor.close()));

/** @param {import("../../static/weei/api/predictor.js").Files} files @param {number} [timeLimitSeconds] */
function make(files, timeLimitSeconds) {
  let spawned = 0;
  const spawn = () => {
    spawned += 1;
    return spawnNodeWorker();
  };
  const predictor = new Predictor(files, { spawn, ...(timeLimitSeconds === undefined ? {} : { timeLimitSeconds }) });
  predictors.push(predictor);
  return { predictor, spawned: () => spawned };
}

/** The same asked without a Worker. @param {number[][]} images */
async function expected(images) {
  const outputs = [];
  for (const pixels of images) {
    const host = await AbiHost.create(await compileModule(digits));
    host.getModelInfo();
    await host.loadModel(host.view(host.createInitialWeights("7")).slice());
    outputs.push(host.predict({ pixels }));
  }
  return outputs;
}

test("predicts one input after the other in one Worker, each like a fresh instance", async () => {
  const first = await AbiHost.create(await compileModule(digits));
  const weights = new Blob([first.view(first.createInitialWeights("7")).slice()]);
  const { predictor, spawned } = make({ module: new Blob([digits]), weights });
  const images = [0, 5, 11].map((shift) => Array.from({ length: 64 }, (_, index) => (index + shift) % 17));
  assert.deepEqual(await Promise.all(images.map((pixels) => predictor.predict({ pixels }))), await expected(images));
  assert.equal(spawned(), 1);
});

test("the auxiliary weights are loaded in their order, after the weights", async () => {
  const auxiliary = ["a", "b"].map((id) => ({ id, bytes: new Blob([new Uint8Array(8)]) }));
  const { predictor } = make({ module: binary("plus_one"), weights: FOUR, auxiliary });
  assert.deepEqual(await predictor.predict({}), { text: "one more" });
  const missing = make({ module: binary("honest"), weights: FOUR, auxiliary });
  await assert.rejects(missing.predictor.predict({}), { code: "export_missing", message: /loadAuxiliary/ });
});

test("a model that does not answer in time is ended with a sentence", async () => {
  const { predictor, spawned } = make({ module: binary("start_loops"), weights: FOUR }, 0.3);
  const running = [predictor.predict({}), predictor.predict({})];
  for (const answer of running) await assert.rejects(answer, { code: "time_limit", message: "The model gave no answer within 0.3 seconds and was stopped." });
  assert.equal(spawned(), 2);
});

test("an abort ends one prediction, closing ends all", async () => {
  const { predictor } = make({ module: binary("start_loops"), weights: FOUR });
  const abort = new AbortController();
  const aborted = predictor.predict({}, { signal: abort.signal });
  const closed = [predictor.predict({}), predictor.predict({})];
  abort.abort(new Error("another input"));
  await assert.rejects(aborted, { message: "another input" });
  predictor.close();
  for (const answer of closed) await assert.rejects(answer, { code: "stopped" });
  await assert.rejects(predictor.predict({}), { code: "stopped" });
});

test("what is no input, no module or no predicting model is refused", async () => {
  const honest = make({ module: binary("plus_one"), weights: FOUR }).predictor;
  await assert.rejects(honest.predict(/** @type {any} */ ([1])), { code: "invalid_input" });
  await assert.rejects(make({ module: new Blob(["no"]), weights: FOUR }).predictor.predict({}), { code: "not_wasm" });
  await assert.rejects(make({ module: binary("plus_one"), weights: new Blob([new Uint8Array(4)]) }).predictor.predict({}), { message: /weights must be 16 bytes/ });
});
