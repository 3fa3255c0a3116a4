/** One assignment or prediction on a fresh instance, from a compiled module and its inputs to a checked result. */
import { AbiHost } from "./abi.js";

/** @typedef {import("./abi.js").Bytes} Bytes */
/** @typedef {{module: WebAssembly.Module, weights: Bytes, auxiliary: {id: string, bytes: Bytes}[]}} Model */
/** @typedef {Model & {data?: Bytes, work: import("./abi.js").Work}} Inputs */

/**
 * Instantiate, getModelInfo, loadModel, every loadAuxiliary: in this order on every host.
 * @param {Model} model @param {import("./abi.js").HostOptions} [options]
 */
async function load({ module, weights, auxiliary }, options) {
  const host = await AbiHost.create(module, options);
  const info = host.getModelInfo();
  await host.loadModel(weights);
  for (const { id, bytes } of auxiliary) await host.loadAuxiliary(id, bytes);
  return { host, info };
}

/** What the model answers to an input. @param {Model} model @param {object} input */
export async function predictOnce(model, input) {
  const { host } = await load(model);
  return host.predict(input);
}

/**
 * The checked weights are still in the module's memory: copy or send the view at once.
 * @param {Inputs} inputs
 * @param {import("./abi.js").HostOptions & {onTraining?: () => void}} [options]
 */
export async function trainAssignment(inputs, options = {}) {
  const { host, info } = await load(inputs, options);
  options.onTraining?.();
  const result = await host.train(inputs.work, inputs.data);
  return { host, info, result, view: host.view(result.weights) };
}

/**
 * The work of a server's assignment. @param {import("../types.js").Assignment} assignment @returns {import("./abi.js").Work}
 */
export function workOf(assignment) {
  const { settings, round, seed, data, experience } = assignment;
  const range = data?.recordCount === undefined ? {} : { recordStart: data.recordStart, recordCount: data.recordCount };
  return { settings, round, seed, ...(experience ? { experience } : {}), ...(data ? { format: data.format, ...range } : {}) };
}
