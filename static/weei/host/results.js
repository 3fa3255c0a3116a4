/** Strict readers of what operations return. Unknown fields are ignored; nothing is guessed. */
import { AbiError } from "./errors.js";

/** @typedef {import("../types.js").TrainResult} TrainResult */
/** @typedef {import("../types.js").TrainReport} TrainReport */
/** @typedef {Record<string, unknown>} Json */

const MAX_U32 = 2 ** 32 - 1;

/** True when no float32 in the bytes is an infinity or a NaN. @param {Uint8Array} view */
export function allFinite(view) {
  const aligned = view.byteOffset % 4 === 0 ? view : view.slice();
  const words = new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >>> 2);
  return words.every((word) => (word & 0x7f800000) !== 0x7f800000);
}

/** @param {unknown} value @returns {value is Json} */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {unknown} value @returns {value is number} */
export function isCount(value) {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 2 ** 53;
}

/** @param {string} operation @param {string} field @param {string} expected @returns {never} */
function refuse(operation, field, expected) {
  throw new AbiError("invalid_result", `${operation} returned ${field} that is not ${expected}.`);
}

/** @param {string} operation @param {Json} value @param {string} field */
function count(operation, value, field) {
  const found = value[field];
  return isCount(found) ? found : refuse(operation, field, "a whole number of 0 or more");
}

/** null is how JSON writes a number that is not finite: that value is dropped, not the update. @param {string} operation @param {unknown} value */
function metrics(operation, value) {
  if (!isObject(value)) return refuse(operation, "metrics", "an object");
  /** @type {Record<string, number>} */
  const kept = {};
  for (const [id, number] of Object.entries(value)) {
    if (number === null) continue;
    if (typeof number === "number" && Number.isFinite(number)) kept[id] = number;
    else refuse(operation, `metrics.${id.slice(0, 100)}`, "a number");
  }
  return kept;
}

/** @param {string} operation @param {unknown} value @param {string} [field] @returns {{pointer: number, bytes: number}} */
export function buffer(operation, value, field = "weights") {
  if (!isObject(value)) return refuse(operation, field, "{pointer, bytes}");
  const { pointer, bytes } = value;
  if (!isCount(pointer) || !isCount(bytes) || pointer > MAX_U32 || bytes > MAX_U32) {
    return refuse(operation, field, "a 32-bit address and length");
  }
  return { pointer, bytes };
}

/** @param {Json} value @returns {TrainResult} */
export function trainResult(value) {
  const steps = value.optimizerSteps;
  return {
    weights: buffer("train", value.weights),
    metrics: metrics("train", value.metrics),
    examplesProcessed: count("train", value, "examplesProcessed"),
    uniqueExamples: count("train", value, "uniqueExamples"),
    ...(steps === undefined || steps === null ? {} : { optimizerSteps: count("train", value, "optimizerSteps") }),
  };
}

/** @param {Json} value */
export function evaluateResult(value) {
  return { metrics: metrics("evaluate", value.metrics), examplesProcessed: count("evaluate", value, "examplesProcessed") };
}

/** Operations that a module must export because its own ModelInfo says so. @param {import("../types.js").ModelInfo} info */
export function promised(info) {
  const capabilities = isObject(info.capabilities) ? info.capabilities : {};
  const auxiliary = Array.isArray(info.auxiliaryWeights) && info.auxiliaryWeights.length > 0;
  return [
    ...(capabilities.evaluation ? ["evaluate"] : []),
    ...(capabilities.inspection ? ["inspectData"] : []),
    ...(capabilities.inference ? ["predict"] : []),
    ...(auxiliary ? ["loadAuxiliary"] : []),
  ];
}

/**
 * A progress report, or null for one that must be dropped.
 * @param {unknown} value
 * @returns {TrainReport | null}
 */
export function progressReport(value) {
  if (!isObject(value) || !isCount(value.processedExamples)) return null;
  const processedExamples = value.processedExamples;
  const totalExamples = value.totalExamples ?? undefined;
  const optimizerSteps = value.optimizerSteps ?? undefined;
  if (totalExamples !== undefined && (!isCount(totalExamples) || processedExamples > totalExamples)) return null;
  if (optimizerSteps !== undefined && !isCount(optimizerSteps)) return null;
  const metrics = Object.entries(value.metrics ?? {}).filter((entry) => entry[1] !== null);
  if (!isObject(value.metrics ?? {}) || !metrics.every((entry) => Number.isFinite(entry[1]))) return null;
  return {
    processedExamples,
    ...(totalExamples === undefined ? {} : { totalExamples }),
    ...(optimizerSteps === undefined ? {} : { optimizerSteps }),
    ...(metrics.length ? { metrics: Object.fromEntries(metrics) } : {}),
  };
}
