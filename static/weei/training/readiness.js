/** Says that this device holds a job's files and how many Workers it has; again whenever that number changes. */

/** @typedef {import("../types.js").PeerJob} PeerJob */
/** @typedef {import("../types.js").PeerState} PeerState */

export class Readiness {
  /** @type {string | null} job and Workers, as this page told them last */ #told = null;
  #abort = new AbortController();
  #context;

  /** @param {{http: import("../net/http.js").Http, workers(): number, apply(state: PeerState): void}} context */
  constructor(context) {
    this.#context = context;
  }

  /** @param {PeerJob} job @param {AbortSignal} signal @returns {Promise<PeerState>} */
  say(job, signal) {
    const { http, workers } = this.#context;
    const auxiliary = Object.fromEntries(job.auxiliary.map(({ id, sha256 }) => [id, sha256]));
    this.#told = this.#words(job);
    return http.retried("POST", "/api/v1/peer/ready", { jobId: job.id, moduleSha256: job.module.sha256, auxiliary, workers: workers() }, signal);
  }

  /**
   * Of a job that is ready already: the server divides this device's assignments by its Workers, and a page cannot know what an earlier
   * one told. Idempotent: every state of the server calls it. @param {PeerJob} job
   */
  renew(job) {
    if (!job.unit || job.workers < 2 || this.#told === this.#words(job)) return;
    this.stop();
    const { signal } = this.#abort;
    // Refused, the job has ended for this device; its state comes by itself.
    this.say(job, signal).then(this.#context.apply, () => {});
  }

  stop() {
    this.#abort.abort(new DOMException("The number of Workers is told again.", "AbortError"));
    this.#abort = new AbortController();
    this.#told = null;
  }

  /** @param {PeerJob} job */
  #words({ id }) {
    return `${id} ${this.#context.workers()}`;
  }
}
