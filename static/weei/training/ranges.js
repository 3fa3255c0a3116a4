/**
 * A divided assignment: the ranges it is played in, and how their results become one. The division is the assignment's own, so that the
 * result does not depend on how many Workers a device has. Bit for bit as weei_core/ranges.py.
 */
import { sha256 } from "../hash.js";
import { workOf } from "../host/assignment.js";

/** Weights are merged in pieces, so that memory does not grow with their size. */
const BLOCK_BYTES = 1024 * 1024;

/** @typedef {import("../types.js").TrainReport} TrainReport */
/** @typedef {import("../host/abi.js").Work} Work */
/** @typedef {import("./runner.js").Trained} Trained */
/** @typedef {{seed: string, unitStart: number, unitCount: number}} Units */

/**
 * Contiguous, as even as possible, larger ones first; each with a seed of its own.
 * @param {Units} whole @param {number} split @returns {Promise<Units[]>}
 */
export async function divided({ seed, unitStart, unitCount }, split) {
  if (split < 1 || split > unitCount) throw new Error(`split must be from 1 to the ${unitCount} units of the assignment; found ${split}.`);
  const size = Math.floor(unitCount / split);
  const larger = unitCount % split;
  return Promise.all(
    Array.from({ length: split }, async (_, k) => {
      const start = unitStart + k * size + Math.min(k, larger);
      return { seed: k === 0 ? seed : await rangeSeed(seed, start), unitStart: start, unitCount: size + (k < larger ? 1 : 0) };
    }),
  );
}

/** @param {string} assignmentSeed @param {number} unitStart the range's own first unit */
async function rangeSeed(assignmentSeed, unitStart) {
  const bytes = new DataView(new ArrayBuffer(16));
  bytes.setBigUint64(0, BigInt(assignmentSeed), true);
  bytes.setBigUint64(8, BigInt(unitStart), true);
  const first64 = (await sha256(new Blob([bytes]))).slice(0, 16);
  const littleEndian = /** @type {string[]} */ (first64.match(/../g)).reverse().join("");
  return BigInt(`0x${littleEndian}`).toString();
}

/** The works of an assignment's ranges, in the order in which they are merged. @param {import("../types.js").Assignment} assignment @returns {Promise<Work[]>} */
export async function worksOf(assignment) {
  const whole = workOf(assignment);
  if (!whole.experience) return [whole];
  const ranges = await divided(whole.experience, assignment.split);
  return ranges.map((experience) => ({ ...whole, experience }));
}

/** What the ranges reported so far, together. @param {Work[]} works @param {(TrainReport | undefined)[]} reports by range @returns {TrainReport} */
export function sumOfReports(works, reports) {
  const heard = reports.filter((report) => report !== undefined);
  const optimizerSteps = sumOf(heard.map((report) => report.optimizerSteps));
  const metrics = averageMetrics(heard.map((report) => [report.processedExamples, report.metrics ?? {}]));
  return {
    processedExamples: sumOf(heard.map((report) => report.processedExamples)) ?? 0,
    // A range that said nothing yet has its units before it.
    totalExamples: sumOf(works.map(({ experience }, k) => reports[k]?.totalExamples ?? experience?.unitCount)),
    ...(optimizerSteps === undefined ? {} : { optimizerSteps }),
    ...(Object.keys(metrics).length ? { metrics } : {}),
  };
}

/** @param {(number | undefined)[]} numbers @returns {number | undefined} of those that are known; undefined when none is */
function sumOf(numbers) {
  const known = numbers.filter((number) => number !== undefined);
  return known.length ? known.reduce((sum, number) => sum + number, 0) : undefined;
}

/**
 * Per id the mean over the reports that have it and a weight above 0, in their order. An id that none of them has is absent.
 * @param {[weight: number, metrics: Record<string, number>][]} reports
 */
function averageMetrics(reports) {
  /** @type {Record<string, number>} */
  const means = {};
  for (const id of new Set(reports.flatMap(([, metrics]) => Object.keys(metrics)))) {
    let total = 0;
    let weights = 0;
    for (const [weight, metrics] of reports) {
      if (!weight || !Object.hasOwn(metrics, id)) continue;
      total += weight * /** @type {number} */ (metrics[id]);
      weights += weight;
    }
    if (weights && Number.isFinite(total)) means[id] = total / weights;
  }
  return means;
}

/**
 * The exact mean of the ranges' weights by finished units, in range order; metrics likewise, counts summed. When no unit was finished
 * nothing is learnt, and the weights are those of the start.
 * @param {Blob} start @param {Trained[]} ranges @param {AbortSignal} signal @returns {Promise<Trained>}
 */
export async function mergeRanges(start, ranges, signal) {
  const [first] = ranges;
  if (!first || ranges.length === 1) return /** @type {Trained} */ (first);
  const results = ranges.map(({ result }) => result);
  const uniqueExamples = sumOf(results.map((result) => result.uniqueExamples)) ?? 0;
  const optimizerSteps = sumOf(results.map((result) => result.optimizerSteps));
  return {
    weights: uniqueExamples ? await averageWeights(ranges, uniqueExamples, signal) : start,
    result: {
      weights: { pointer: 0, bytes: start.size },
      metrics: averageMetrics(results.map((result) => [result.uniqueExamples, result.metrics])),
      examplesProcessed: sumOf(results.map((result) => result.examplesProcessed)) ?? 0,
      uniqueExamples,
      ...(optimizerSteps === undefined ? {} : { optimizerSteps }),
    },
    info: first.info,
  };
}

/** float32(Σnw / Σn), each operation rounded once to float64. @param {Trained[]} ranges @param {number} total @param {AbortSignal} signal */
async function averageWeights(ranges, total, signal) {
  const counted = ranges.filter(({ result }) => result.uniqueExamples > 0);
  const size = /** @type {Trained} */ (counted[0]).weights.size;
  const sums = new Float64Array(Math.min(size, BLOCK_BYTES) / 4);
  const merged = [];
  for (let at = 0; at < size; at += BLOCK_BYTES) {
    for (const [position, { weights, result }] of counted.entries()) {
      const floats = new Float32Array(await weights.slice(at, at + BLOCK_BYTES).arrayBuffer());
      signal.throwIfAborted();
      // The first product is not added to 0: that would turn a sum of -0 into 0.
      if (position === 0) floats.forEach((value, i) => (sums[i] = result.uniqueExamples * value));
      else floats.forEach((value, i) => (sums[i] = /** @type {number} */ (sums[i]) + result.uniqueExamples * value));
    }
    const block = new Float32Array(Math.min(size - at, BLOCK_BYTES) / 4);
    for (let i = 0; i < block.length; i += 1) block[i] = /** @type {number} */ (sums[i]) / total;
    merged.push(new Blob([block]));
  }
  return new Blob(merged);
}
