/** Module Worker that holds one module instance at a time and nothing else: no network, no storage, no timers. */
import { predictOnce, trainAssignment } from "./host/assignment.js";
import { AbiHost } from "./host/abi.js";
import { AbiError, failureSentence } from "./host/errors.js";
import { FromTrainer, ToTrainer } from "./protocol.js";

/** The shortest time between two progress reports that are read; a module may send a million a second. */
const PROGRESS_MS = 100;

/** @typedef {{module: WebAssembly.Module, weights: Blob, auxiliary: {id: string, bytes: Blob}[], data?: Blob, work: import("./host/requests.js").Work}} TrainInputs */

/** @param {string} type @param {number} id @param {Record<string, unknown>} [body] */
const post = (type, id, body = {}) => self.postMessage({ type, id, ...body });

/** @param {number} id @param {TrainInputs} inputs */
async function train(id, inputs) {
  let due = -Infinity;
  const wantsProgress = () => {
    const now = performance.now();
    if (now < due) return false;
    due = now + PROGRESS_MS;
    return true;
  };
  const { info, result, view } = await trainAssignment(inputs, {
    wantsProgress,
    onProgress: (report) => post(FromTrainer.progress, id, { report }),
    onTraining: () => post(FromTrainer.stage, id, { stage: "training" }),
  });
  // The one copy of the weights: out of the module's memory, into a Blob that can be sliced again for every retry.
  const weights = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (view)]);
  const metrics = declaredMetrics(info, result.metrics);
  post(FromTrainer.result, id, { weights, result: { ...result, metrics }, info: { id: info.id, version: info.version } });
}

/** Others are no part of an update. @param {import("./types.js").ModelInfo} info @param {Record<string, number>} metrics */
function declaredMetrics({ metrics: declared = [] }, metrics) {
  return Object.fromEntries(Object.entries(metrics).filter(([id]) => declared.some((metric) => metric.id === id)));
}

/** Whether this device can hold the module at all, and what the module says of itself. @param {number} id @param {WebAssembly.Module} module */
async function inspect(id, module) {
  const host = await AbiHost.create(module);
  post(FromTrainer.result, id, { info: host.getModelInfo() });
}

/** @param {number} id @param {{model: import("./host/assignment.js").Model, input: object}} of */
async function predict(id, { model, input }) {
  post(FromTrainer.result, id, { output: await predictOnce(model, input) });
}

self.onmessage = async ({ data }) => {
  const { type, id } = data;
  try {
    if (type === ToTrainer.train) await train(id, data.inputs);
    else if (type === ToTrainer.inspect) await inspect(id, data.module);
    else if (type === ToTrainer.predict) await predict(id, data);
    else throw new Error(`${String(type)} is not a message of a training Worker.`);
  } catch (error) {
    const code = error instanceof AbiError ? error.code : "host";
    post(FromTrainer.failed, id, { code, message: failureSentence(type, "", error) });
  }
};
