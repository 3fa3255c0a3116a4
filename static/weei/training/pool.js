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
/** @typedef {import("../types.js").Stage | null} DeviceStage of all Workers together; null: none is at work */
/** @typedef {{onStage?: (stage: DeviceStage) => void, onProgress?: (report: TrainReport) => void}} PoolEvents */

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

  /**
   * What the module says of itself, asked once.
   * @param {WebAssembly.Module} module @param {RunLimits & {onStage?: (stage: "preparing") => void}} limits
   */
  async inspect(module, { onStage, ...limits }) {
    const known = this.#infos.get(module);
    if (known) return known;
    onStage?.("preparing");
    const runner = (this.#runners[0] ??= new TrainingRunner(this.#spawn));
    const { info } = await runner.inspect(module, limits);
    this.#infos.set(module, info);
    return info;
  }

  /**
   * All ranges, from the same weights. The first failure ends the others; what the machine lost is played again once, alone.
   * @param {Inputs} inputs @param {Work[]} works
   * @param {PoolEvents & RunLimits} options
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
  /** @type {Map<number, DeviceStage>} of each range that is played */ #stages = new Map();
  /** @type {DeviceStage} */ #told = null;
  #inputs;
  #works;
  #options;

  /**
   * @param {Inputs} inputs @param {Work[]} works
   * @param {PoolEvents & RunLimits} options
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
    const trained = await this.#train(runner, k, work);
    checkUnits(work, trained.result.uniqueExamples);
    this.#results[k] = trained;
    const { examplesProcessed: processedExamples, optimizerSteps, metrics } = trained.result;
    this.#heard(k, { ...this.#reports[k], processedExamples, optimizerSteps, metrics });
  }

  /** @param {TrainingRunner} runner @param {number} k @param {Work} work */
  async #train(runner, k, work) {
    const onProgress = (/** @type {TrainReport} */ report) => this.#heard(k, report);
    const onStage = (/** @type {DeviceStage} */ stage) => this.#entered(k, stage);
    onStage("preparing");
    try {
      return await runner.train({ ...this.#inputs, work }, { ...this.#options, onStage, onProgress });
    } finally {
      onStage(null);
    }
  }

  /** One Worker inside `train` is enough for the device to train. @param {number} k @param {DeviceStage} stage */
  #entered(k, stage) {
    if (stage) this.#stages.set(k, stage);
    else this.#stages.delete(k);
    const stages = [...this.#stages.values()];
    const now = stages.includes("training") ? "training" : (stages[0] ?? null);
    if (now === this.#told) return;
    this.#told = now;
    this.#options.onStage?.(now);
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
