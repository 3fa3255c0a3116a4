/** Before the first assignment: fetch, verify and compile the module, try it once, fetch its auxiliary files, say so. */
import { Problem } from "../net/http.js";

/** @typedef {import("../types.js").PeerJob} PeerJob */
/**
 * @typedef {{artifacts: import("./artifacts.js").JobArtifacts, pool: import("./pool.js").WorkerPool, http: import("../net/http.js").Http,
 *   enter(stage: import("../types.js").Stage): void, apply(state: import("../types.js").PeerState): void,
 *   named(wasmSha256: string, info: {id: string, version: string}): void, failed(message: string): void,
 *   readiness: import("./readiness.js").Readiness}} PreparationContext
 */

/** @param {PeerJob} job */
const keyOf = (job) => `${job.id} ${job.module.sha256}`;

export class Preparation {
  /** @type {{key: string, abort: AbortController} | null} */ #current = null;
  /** @type {string | null} what failed is not tried again by itself */ #failedKey = null;
  #context;

  /** @param {PreparationContext} context */
  constructor(context) {
    this.#context = context;
  }

  get running() {
    return this.#current !== null;
  }

  /** The person asks again for what failed before. */
  forgive() {
    this.#failedKey = null;
  }

  abort() {
    this.#current?.abort.abort(new DOMException("The preparation was stopped.", "AbortError"));
    this.#current = null;
  }

  /** Idempotent: every state of the server calls it until the job is ready. @param {PeerJob} job */
  start(job) {
    const key = keyOf(job);
    if (this.#current?.key === key || this.#failedKey === key) return;
    this.abort();
    const current = { key, abort: new AbortController() };
    this.#current = current;
    void this.#run(job, current.abort.signal).finally(() => {
      if (this.#current === current) this.#current = null;
    });
  }

  /** @param {PeerJob} job @param {AbortSignal} signal */
  async #run(job, signal) {
    try {
      await this.#prepare(job, signal);
      const state = await this.#context.readiness.say(job, signal);
      this.#done(signal, "waiting");
      this.#context.apply(state);
    } catch (error) {
      if (!signal.aborted) await this.#failed(job, error, signal);
    }
  }

  /** @param {PeerJob} job @param {AbortSignal} signal */
  async #prepare(job, signal) {
    const { artifacts, pool, enter, named } = this.#context;
    enter("receiving");
    const module = await artifacts.module(job.id, job.module, signal, () => enter("preparing"));
    enter("preparing");
    // Compiled is not enough: a phone may have no room for the module's memory, and that must be said now (C62).
    const info = await pool.inspect(module, { stallMinutes: job.stallMinutes, signal });
    named(job.module.sha256, info);
    if (!job.auxiliary.length) return;
    enter("receiving");
    await artifacts.auxiliary(job.id, job.auxiliary, info, signal);
  }

  /** @param {AbortSignal} signal @param {import("../types.js").Stage} stage */
  #done(signal, stage) {
    signal.throwIfAborted();
    this.#current = null;
    this.#context.enter(stage);
  }

  /** @param {PeerJob} job @param {unknown} error @param {AbortSignal} signal */
  async #failed(job, error, signal) {
    const reason = error instanceof Error && error.message ? error.message : `The model could not be loaded: ${String(error)}.`;
    this.#failedKey = keyOf(job);
    this.#current = null;
    this.#context.failed(reason);
    if (error instanceof Problem && error.code === "unauthorized") return;
    try {
      this.#context.apply(await this.#context.http.retried("POST", "/api/v1/peer/load-failed", { jobId: job.id, reason: reason.slice(0, 500) }, signal));
    } catch {
      // The job ended meanwhile; its state comes by itself.
    }
  }
}
