/** What a trained model answers, asked from a page: each prediction on a fresh instance, in a Worker that can be ended. */
import { compileModule } from "../host/module.js";
import { isObject } from "../host/results.js";
import { spawnModule } from "../spawn.js";
import { RunError, TrainingRunner } from "../training/runner.js";

const TIME_LIMIT_SECONDS = 60;

const spawnWorker = () => spawnModule(new URL("../train-worker.js", import.meta.url), "weei-prediction");

/** @typedef {{module: Blob, weights: Blob, auxiliary?: {id: string, bytes: Blob}[]}} Files `auxiliary` in the model's declared order */

export class Predictor {
  /** @type {Promise<WebAssembly.Module> | null} */ #compiling = null;
  /** The last prediction, whatever becomes of it. @type {Promise<unknown>} */ #last = Promise.resolve();
  #closed = new AbortController();
  #runner;
  #files;
  #seconds;

  /**
   * @param {Files} files
   * @param {{timeLimitSeconds?: number, spawn?: () => import("../training/runner.js").WorkerLike}} [options]
   */
  constructor(files, { timeLimitSeconds = TIME_LIMIT_SECONDS, spawn = spawnWorker } = {}) {
    this.#files = files;
    this.#seconds = timeLimitSeconds;
    this.#runner = new TrainingRunner(spawn);
  }

  /**
   * One at a time, in the order they were asked for. An abort ends the Worker at once; the next prediction gets a new one.
   * @param {object} input in the form of `ModelInfo.inference`
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Record<string, unknown>>} the output
   */
  predict(input, { signal } = {}) {
    const turn = this.#last.then(() => this.#run(input, signal));
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Ends what runs and refuses what waits. */
  close() {
    this.#closed.abort(new RunError("stopped", "The prediction was stopped."));
    this.#runner.terminate();
  }

  /** @param {object} input @param {AbortSignal | undefined} signal */
  async #run(input, signal) {
    if (!isObject(input)) throw new RunError("invalid_input", `The input of a prediction must be an object; found ${JSON.stringify(input)}.`);
    const module = await this.#module();
    this.#closed.signal.throwIfAborted();
    const { weights, auxiliary = [] } = this.#files;
    const limit = { stallMinutes: this.#seconds / 60, signal: signal ?? this.#closed.signal };
    try {
      return (await this.#runner.predict({ module, weights, auxiliary }, input, limit)).output;
    } catch (error) {
      if (!(error instanceof RunError) || error.code !== "stalled") throw error;
      throw new RunError("time_limit", `The model gave no answer within ${this.#seconds} seconds and was stopped.`);
    }
  }

  #module() {
    this.#compiling ??= this.#files.module.arrayBuffer().then((buffer) => compileModule(new Uint8Array(buffer)));
    return this.#compiling;
  }
}
