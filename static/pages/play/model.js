// A checkpoint that answers: its files, fetched with the session of the person who coordinates the job, and what the model says.
import { Predictor } from "../../weei/api/predictor.js";
import { download } from "../../weei/net/download.js";
import { Http } from "../../weei/net/http.js";

/** @typedef {{sha256: string, bytes: number}} Ref */
/** What the server says of a checkpoint; slots come filled by the rule that the model declares.
 * @typedef {{round: number, newest: number, weights: Ref, auxiliary: Array<Ref & {id: string}>,
 *   metrics: Array<{label: string, training: number | null, checked: number | null}>}} CheckpointFacts */

export class PlayedModel {
  #http = new Http({ base: location.origin, headers: () => ({}) });
  #jobId;
  #files;
  #module;
  /** What the last checkpoint needed, by hash: most of it the next one needs too. @type {Map<string, Blob>} */ #held = new Map();
  /** @type {Predictor | null} */ #predictor = null;

  /** @param {{jobId: string, files: string, module: Ref}} of `files` is the address below which the server tells of checkpoints */
  constructor({ jobId, files, module }) {
    this.#jobId = jobId;
    this.#files = files;
    this.#module = module;
  }

  /** @param {number | "newest"} round @param {AbortSignal} signal @returns {Promise<CheckpointFacts>} */
  async facts(round, signal) {
    const response = await this.#http.request(`${this.#files}${round}`, { signal });
    if (response.redirected) throw new Error("Your session ended. Sign in again in another tab, then try again.");
    if (response.status === 404) throw new Error(`There is no checkpoint of round ${round} any more, or not yet.`);
    if (!response.ok) throw new Error(`The server answered ${response.status}.`);
    return response.json();
  }

  /** From now on this checkpoint answers. @param {CheckpointFacts} facts @param {{signal: AbortSignal, onProgress: (fraction: number) => void}} options */
  async load(facts, { signal, onProgress }) {
    const refs = [this.#module, facts.weights, ...facts.auxiliary];
    const missing = refs.filter(({ sha256 }, index) => !this.#held.has(sha256) && refs.findIndex((ref) => ref.sha256 === sha256) === index);
    const total = missing.reduce((sum, { bytes }) => sum + bytes, 0);
    let done = 0;
    for (const ref of missing) {
      const path = `/bytes/jobs/${this.#jobId}/${ref.sha256}`;
      const blob = await download(this.#http, path, ref, { signal, onProgress: (bytes) => onProgress((done + bytes) / total) });
      done += ref.bytes;
      this.#held.set(ref.sha256, blob);
    }
    signal.throwIfAborted();
    this.#held = new Map(refs.map(({ sha256 }) => [sha256, this.#blob(sha256)]));
    this.#predictor?.close();
    this.#predictor = new Predictor({
      module: this.#blob(this.#module.sha256),
      weights: this.#blob(facts.weights.sha256),
      auxiliary: facts.auxiliary.map(({ id, sha256 }) => ({ id, bytes: this.#blob(sha256) })),
    });
  }

  /** @param {object} input @returns {Promise<any>} the output */
  ask(input) {
    if (!this.#predictor) throw new Error("No checkpoint is loaded yet.");
    return this.#predictor.predict(input);
  }

  /** @param {string} sha256 */
  #blob(sha256) {
    const blob = this.#held.get(sha256);
    if (!blob) throw new Error(`The file ${sha256} was not fetched.`);
    return blob;
  }
}
