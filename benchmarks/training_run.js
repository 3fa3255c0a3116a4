/** Measures assignments of the transformer through the host that training uses, in a Worker and in Node alike. */
import { trainAssignment } from "../static/weei/host/assignment.js";
import { compileModule } from "../static/weei/host/module.js";

/**
 * @param {{parts: {module: number, weights: number, chunk: number}, work: import("../static/weei/host/abi.js").Work, repeats: number}} task
 * @param {Uint8Array} joined the parts, one behind the other
 * @returns {Promise<{seconds: number[], weights: string}>} of each assignment; the SHA-256 of the last one's weights
 */
export async function timedAssignments({ parts, work, repeats }, joined) {
  const weightsAt = parts.module;
  const dataAt = weightsAt + parts.weights;
  const module = await compileModule(joined.slice(0, weightsAt));
  const weights = joined.slice(weightsAt, dataAt);
  const data = joined.slice(dataAt, dataAt + parts.chunk);
  const seconds = [];
  let trained = new Uint8Array();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const begun = performance.now();
    const { view } = await trainAssignment({ module, weights, auxiliary: [], data, work }, { onProgress: () => {} });
    trained = view.slice();
    seconds.push((performance.now() - begun) / 1000);
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", trained));
  return { seconds, weights: Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("") };
}
