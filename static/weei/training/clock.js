/** Durations and speeds of one assignment, on a monotonic clock only (C74, C75). */

/** Stages that are timed, and the field each is reported as. */
const TIMED = /** @type {const} */ ({ preparing: "preparationMs", compiling: "compilationMs", training: "trainingMs", uploading: "uploadMs" });
const WINDOW_MS = 5_000;

/** @typedef {import("../types.js").Stage} Stage */
/** @typedef {import("../types.js").Snapshot["timings"]} Timings */

export class StageClock {
  /** @type {Stage} */ stage = "waiting";
  /** @type {Stage | null} whose time is counted now */ #timed = "waiting";
  #since;
  #now;
  /** @type {Timings} */ #timings;

  /** @param {() => number} now monotonic milliseconds */
  constructor(now) {
    this.#now = now;
    this.#since = now();
    this.#timings = nothingTimed();
  }

  /** A new assignment starts from nothing. */
  reset() {
    this.#timings = nothingTimed();
    this.#since = this.#now();
  }

  /** @param {Stage} stage @returns {boolean} whether it changed */
  enter(stage) {
    this.time(stage);
    if (stage === this.stage) return false;
    this.stage = stage;
    return true;
  }

  /**
   * Count the time of another stage than the one that is shown: a Worker prepares its next range in the middle of training, and between
   * stages (null) nobody's time is counted. A stage entered twice is summed. @param {Stage | null} stage
   */
  time(stage) {
    const field = fieldOf(this.#timed);
    if (field) this.#timings[field] = (this.#timings[field] ?? 0) + this.#elapsed();
    this.#timed = stage;
    this.#since = this.#now();
  }

  /** A stage that is not over, or that is entered again, has no duration yet. */
  timings() {
    const timings = { ...this.#timings };
    for (const field of [fieldOf(this.stage), fieldOf(this.#timed)]) if (field) timings[field] = null;
    return timings;
  }

  /** Milliseconds inside `train` so far, the running stage included. */
  trainingMs() {
    return (this.#timings.trainingMs ?? 0) + (this.#timed === "training" ? this.#elapsed() : 0);
  }

  #elapsed() {
    return Math.max(0, this.#now() - this.#since);
  }
}

/** @param {Stage | null} stage @returns {keyof Timings | undefined} */
function fieldOf(stage) {
  return stage === null ? undefined : /** @type {Record<string, keyof Timings>} */ (TIMED)[stage];
}

/** @returns {Timings} */
const nothingTimed = () => ({ preparationMs: null, compilationMs: null, trainingMs: null, uploadMs: null });

/** Speed over the samples of the last five seconds; null until two of them differ in time. */
export class RateWindow {
  /** @type {{at: number, count: number}[]} */ #samples = [];
  #now;

  /** @param {() => number} now monotonic milliseconds */
  constructor(now) {
    this.#now = now;
  }

  /** @param {number} count a running total */
  add(count) {
    const at = this.#now();
    const last = this.#samples.at(-1);
    if (last && last.at === at) last.count = count;
    else this.#samples.push({ at, count });
    this.#forget();
  }

  /** @returns {number | null} per second */
  current() {
    this.#forget();
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (!first || !last || last.at <= first.at) return null;
    return Math.max(0, ((last.count - first.count) * 1000) / (last.at - first.at));
  }

  clear() {
    this.#samples = [];
  }

  #forget() {
    const oldest = this.#now() - WINDOW_MS;
    this.#samples = this.#samples.filter((sample) => sample.at >= oldest);
  }
}

/**
 * Seconds that are left, or undefined when that cannot be told: never Infinity, NaN or a false 0.
 * @param {number} done @param {number | null | undefined} total @param {number | null} perSecond
 */
export function secondsLeft(done, total, perSecond) {
  if (!total || !perSecond || done >= total) return undefined;
  const seconds = (total - done) / perSecond;
  return Number.isFinite(seconds) ? seconds : undefined;
}
