/** One assignment, from a compiled module and its inputs to checked weights still in the module's memory. */
import { AbiHost } from "./abi.js";

/** @typedef {import("./abi.js").Bytes} Bytes */
/** @typedef {{module: WebAssembly.Module, weights: Bytes, auxiliary: {id: string, bytes: Bytes}[], data?: Bytes, work: import("./abi.js").Work}} Inputs */

/**
 * Instantiate, getModelInfo, loadModel, every loadAuxiliary, train: in this order on every host.
 * @param {Inputs} inputs
 * @param {import("./abi.js").HostOptions & {onTraining?: () => void}} [options]
 */
export async function trainAssignment(inputs, options = {}) {
  const host = await AbiHost.create(inputs.module, options);
  const info = host.getModelInfo();
  await host.loadModel(inputs.weights);
  for (const { id, bytes } of inputs.auxiliary) await host.loadAuxiliary(id, bytes);
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
  return { settings, round, seed, experience, ...(data ? { format: data.format, ...range } : {}) };
}
