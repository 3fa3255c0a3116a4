/** What this device tells the debug log of its page: names and figures, never contents (docs/protocol.md, "The debug log"). */

/** @typedef {(event: string, details: Record<string, unknown>, at: number) => void} Told */

export class DeviceEvents {
  /** @type {import("../types.js").Stage} */ #stage = "waiting";
  #now;
  #wall;
  #told;
  #about;

  /**
   * @param {{now: () => number, wall: () => number, told: Told, about: () => {jobId: string, round: number} | null}} options
   *   `about`: the work that events without a job of their own belong to
   */
  constructor({ now, wall, told, about }) {
    this.#now = now;
    this.#wall = wall;
    this.#told = told;
    this.#about = about;
  }

  /** @param {string} event @param {Record<string, unknown>} [details] */
  tell(event, details = {}) {
    const { jobId, round } = this.#about() ?? {};
    this.#told(event, { jobId, round, ...details }, this.#wall());
  }

  /** A phase begins; what is returned ends it. One that fails is not ended. @param {string} phase */
  began(phase) {
    const began = this.#now();
    return (/** @type {Record<string, unknown>} */ details = {}) => this.#finished(phase, this.#now() - began, details);
  }

  /** Says each stage once, and what training took when its update is sent. @param {import("./clock.js").StageClock} clock */
  stage(clock) {
    const before = this.#stage;
    if (clock.stage === before) return;
    this.#stage = clock.stage;
    if (before === "training" && clock.stage === "uploading") this.#finished("training", clock.timings().trainingMs ?? 0, {});
    this.tell("stage.changed", { stage: clock.stage });
  }

  /** @param {string} phase @param {number} ms @param {Record<string, unknown>} details */
  #finished(phase, ms, details) {
    this.tell("phase.finished", { phase, ms: Math.round(ms * 10) / 10, ...details });
  }
}
