/** One training Worker, seen from the control Worker: calls with ids, progress, a watchdog, and an end that is sure. */
import { FromTrainer, ToTrainer } from "../protocol.js";

/** The Worker, or the module in it, failed. The message is a sentence. */
export class RunError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.name = "RunError";
    this.code = code;
  }
}

/** @typedef {Pick<Worker, "postMessage" | "terminate" | "onmessage" | "onerror" | "onmessageerror">} WorkerLike */
/** @typedef {{onStage?: (stage: import("../types.js").Stage) => void, onProgress?: (report: import("../types.js").TrainReport) => void}} RunEvents */
/** @typedef {{weights: Blob, result: import("../types.js").TrainResult, info: {id: string, version: string}}} Trained */
/** @typedef {{id: number, resolve: (value: any) => void, reject: (error: unknown) => void, events: RunEvents}} Pending */

export class TrainingRunner {
  /** @type {WorkerLike | null} */ #worker = null;
  /** @type {Pending | null} one call at a time: a Worker holds one instance */ #pending = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #watchdog;
  #stallMs = 0;
  #calls = 0;
  #spawn;

  /** @param {() => WorkerLike} spawn */
  constructor(spawn) {
    this.#spawn = spawn;
  }

  get busy() {
    return this.#pending !== null;
  }

  /**
   * @param {import("../train-worker.js").TrainInputs} inputs
   * @param {RunEvents & {stallMinutes: number, signal: AbortSignal}} options
   * @returns {Promise<Trained>}
   */
  train(inputs, { stallMinutes, signal, ...events }) {
    return this.#call(ToTrainer.train, { inputs }, { stallMinutes, signal, events });
  }

  /**
   * @param {WebAssembly.Module} module
   * @param {{stallMinutes: number, signal: AbortSignal}} options
   * @returns {Promise<{info: import("../types.js").ModelInfo}>}
   */
  inspect(module, { stallMinutes, signal }) {
    return this.#call(ToTrainer.inspect, { module }, { stallMinutes, signal, events: {} });
  }

  /**
   * Nothing is heard before the answer, so that `stallMinutes` is the time limit.
   * @param {import("../host/assignment.js").Model} model @param {object} input
   * @param {{stallMinutes: number, signal: AbortSignal}} options
   * @returns {Promise<{output: Record<string, unknown>}>}
   */
  predict(model, input, { stallMinutes, signal }) {
    return this.#call(ToTrainer.predict, { model, input }, { stallMinutes, signal, events: {} });
  }

  /** End the Worker at once, whatever it does. @param {unknown} [reason] */
  terminate(reason = new RunError("stopped", "The training Worker was stopped.")) {
    clearTimeout(this.#watchdog);
    this.#worker?.terminate();
    this.#worker = null;
    const pending = this.#pending;
    this.#pending = null;
    pending?.reject(reason);
  }

  /**
   * @param {string} type @param {object} body
   * @param {{stallMinutes: number, signal: AbortSignal, events: RunEvents}} options
   * @returns {Promise<any>}
   */
  #call(type, body, { stallMinutes, signal, events }) {
    signal.throwIfAborted();
    if (this.#pending) throw new RunError("busy", "The training Worker is busy with another assignment.");
    const stop = () => this.terminate(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    return new Promise((resolve, reject) => {
      this.#calls += 1;
      this.#pending = { id: this.#calls, resolve, reject, events };
      this.#stallMs = stallMinutes * 60_000;
      this.#alive(type);
      this.#ensureWorker().postMessage({ type, id: this.#calls, ...body });
    }).finally(() => signal.removeEventListener("abort", stop));
  }

  #ensureWorker() {
    if (this.#worker) return this.#worker;
    const worker = this.#spawn();
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => {
      const message = event?.message || "it ended without a message; this device may be out of memory";
      this.terminate(new RunError("worker", `The training Worker failed: ${message}.`));
    };
    worker.onmessageerror = () => this.terminate(new RunError("worker", "The training Worker was sent something it cannot read."));
    return worker;
  }

  /** @param {any} data */
  #receive(data) {
    const pending = this.#pending;
    if (!pending || data.id !== pending.id) return;
    if (data.type === FromTrainer.result) return this.#settle(() => pending.resolve(data));
    if (data.type === FromTrainer.failed) return this.#failed(pending, data);
    this.#alive(data.stage ?? "progress");
    if (data.type === FromTrainer.stage) pending.events.onStage?.(data.stage);
    if (data.type === FromTrainer.progress) pending.events.onProgress?.(data.report);
  }

  /** A Worker whose module failed is not used again (C57). @param {Pending} pending @param {{code: string, message: string}} data */
  #failed(pending, { code, message }) {
    this.#settle(() => pending.reject(new RunError(code, message)));
    this.terminate();
  }

  /** @param {() => void} settle */
  #settle(settle) {
    clearTimeout(this.#watchdog);
    this.#pending = null;
    settle();
  }

  /** A sign of life; without another one in time the Worker is ended. @param {string} after */
  #alive(after) {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => {
      const minutes = this.#stallMs / 60_000;
      this.terminate(new RunError("stalled", `The module showed no progress for ${minutes} minutes (after: ${after}) and was stopped.`));
    }, this.#stallMs);
  }
}
