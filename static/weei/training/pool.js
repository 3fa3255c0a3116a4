/** The training Workers of this device: as many at once as it may run. An assignment's ranges are dealt to them in order. */
import { RunError, TrainingRunner } from "./runner.js";
import { sumOfReports } from "./ranges.js";

/** What may be the machine's fault and not the module's, such as too many memories at once. */
const PLAYED_AGAIN = new Set(["worker", "memory_limit", "alloc_failed"]);

/** @typedef {import("../types.js").ModelInfo} ModelInfo */
/** @typedef {import("../types.js").TrainReport} TrainReport */
/** @typedef {import("../host/abi.js").Work} Work */
/** @typedef {import("./runner.js").Trained} Trained */
/** @typedef {{stallMinutes: number, signal: AbortSignal}} RunLimits */
/** @typedef {Omit<import("../train-worker.js").TrainInputs, "work">} Inputs */

export class WorkerPool {
  /** @type {TrainingRunner[]} */ #runners = [];
  /** @type {WeakMap<WebAssembly.Module, ModelInfo>} */ #infos = new WeakMap();
  #spawn;
  #limit;

  /** @param {() => import("./runner.js").WorkerLike} spawn @param {() => number} limit */
  constructor(spawn, limit) {
    this.#spawn = spawn;
    this.#limit = limit;
  }

  /** Workers that run something now. */
  get active() {
    return this.#runners.filter((runner) => runner.busy).length;
  }

  /** What the module says of itself, asked once. @param {WebAssembly.Module} module @param {RunLimits} limits */
  async inspect(module, limits) {
    const known = this.#infos.get(module);
    if (known) return known;
    const runner = (this.#runners[0] ??= new TrainingRunner(this.#spawn));
    const { info } = await runner.inspect(module, limits);
    this.#infos.set(module, info);
    return info;
  }

  /**
   * All ranges, from the same weights. The first failure ends the others; what the machine lost is played again once, alone.
   * @param {Inputs} inputs @param {Work[]} works
   * @param {import("./runner.js").RunEvents & RunLimits} options
   * @returns {Promise<Trained[]>} in the order of `works`
   */
  async train(inputs, works, { signal, ...options }) {
    signal.throwIfAborted();
    const abort = new AbortController();
    const stop = () => abort.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    const play = new Play(inputs, works, { ...options, signal: abort.signal });
    try {
      return await play.run(this.#atMost(works.length));
    } catch (error) {
      abort.abort(error);
      throw error;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  /** End all Workers at once. */
  terminate() {
    for (const runner of this.#runners) runner.terminate();
  }

  /** As many Workers as are wanted and allowed; those beyond are ended, for their memory. @param {number} wanted */
  #atMost(wanted) {
    const count = Math.min(wanted, this.#limit());
    for (const runner of this.#runners.splice(count)) runner.terminate();
    while (this.#runners.length < count) this.#runners.push(new TrainingRunner(this.#spawn));
    return [...this.#runners];
  }
}

/** One assignment on several Workers. */
class Play {
  /** @type {Trained[]} */ #results = [];
  /** @type {(TrainReport | undefined)[]} the latest of each range */ #reports = [];
  #inputs;
  #works;
  #options;

  /**
   * @param {Inputs} inputs @param {Work[]} works
   * @param {import("./runner.js").RunEvents & RunLimits} options
   */
  constructor(inputs, works, options) {
    this.#inputs = inputs;
    this.#works = works;
    this.#options = options;
  }

  /** @param {TrainingRunner[]} runners */
  async run(runners) {
    /** @type {number[]} */
    const lost = [];
    // One iterator for all: each Worker takes the next range when it has done one.
    const waiting = this.#works.keys();
    const work = async (/** @type {TrainingRunner} */ runner) => {
      for (const k of waiting) {
        if (!(await this.#tryRange(runner, k))) lost.push(k);
      }
    };
    await Promise.all(runners.map(work));
    if (lost.length) await this.#playAgain(runners, lost);
    return this.#results;
  }

  /** One after the other and with no other Worker beside it, so that it has what memory there is. @param {TrainingRunner[]} runners @param {number[]} lost */
  async #playAgain(runners, lost) {
    for (const runner of runners) runner.terminate();
    for (const k of lost) await this.#playRange(/** @type {TrainingRunner} */ (runners[0]), k);
  }

  /** @param {TrainingRunner} runner @param {number} k @returns {Promise<boolean>} false: the machine lost it */
  async #tryRange(runner, k) {
    try {
      await this.#playRange(runner, k);
      return true;
    } catch (error) {
      if (!(error instanceof RunError) || !PLAYED_AGAIN.has(error.code)) throw error;
      return false;
    }
  }

  /** @param {TrainingRunner} runner @param {number} k */
  async #playRange(runner, k) {
    const work = /** @type {Work} */ (this.#works[k]);
    const onProgress = (/** @type {TrainReport} */ report) => this.#heard(k, report);
    const trained = await runner.train({ ...this.#inputs, work }, { ...this.#options, onProgress });
    checkUnits(work, trained.result.uniqueExamples);
    this.#results[k] = trained;
    const { examplesProcessed: processedExamples, optimizerSteps, metrics } = trained.result;
    this.#heard(k, { ...this.#reports[k], processedExamples, optimizerSteps, metrics });
  }

  /** @param {number} k @param {TrainReport} report */
  #heard(k, report) {
    this.#reports[k] = report;
    this.#options.onProgress?.(this.#works.length === 1 ? report : sumOfReports(this.#works, this.#reports));
  }
}

/** The server checks the whole; only here it is known what a range had. @param {Work} work @param {number} finished */
function checkUnits({ experience }, finished) {
  if (!experience || finished <= experience.unitCount) return;
  throw new RunError("invalid_result", `train returned uniqueExamples ${finished}; it was given ${experience.unitCount} units.`);
}
