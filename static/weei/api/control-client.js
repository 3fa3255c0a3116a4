/** The page's end of its control Worker: calls with ids, all rejected when the Worker dies. */
import { FromControl, ToControl } from "../protocol.js";

/** An error of the server or the Worker, as its page sees it. */
export class CommandError extends Error {
  /** @param {{message: string, code?: string, field?: string | null}} of */
  constructor({ message, code, field }) {
    super(message);
    this.name = "CommandError";
    this.code = typeof code === "string" ? code : "error";
    this.field = field ?? null;
  }
}

/** @typedef {(message: any) => void} Listener */
/** @typedef {Pick<Worker, "postMessage" | "terminate" | "onmessage" | "onerror">} WorkerLike */

export class ControlClient {
  /** @type {WorkerLike | null} */ #worker = null;
  /** @type {Map<number, {resolve: (value: any) => void, reject: (error: unknown) => void}>} */ #pending = new Map();
  #calls = 0;
  #spawn;
  #listener;

  /**
   * @param {() => WorkerLike} spawn
   * @param {Listener} listener is told every message that is no answer, and `{type: "died", message}`
   */
  constructor(spawn, listener) {
    this.#spawn = spawn;
    this.#listener = listener;
  }

  /** @param {string} method @param {object} [args] @returns {Promise<any>} */
  call(method, args = {}) {
    this.#calls += 1;
    const id = this.#calls;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      try {
        this.#ensure().postMessage({ type: ToControl.call, id, method, args });
      } catch (error) {
        this.#pending.delete(id);
        reject(error);
      }
    });
  }

  #ensure() {
    if (this.#worker) return this.#worker;
    const worker = this.#spawn();
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => this.#died(`The background part of this page failed: ${event?.message || "no reason given"}. Reload the page.`);
    this.#worker = worker;
    return worker;
  }

  /** @param {any} data */
  #receive(data) {
    if (data.type !== FromControl.answer) return this.#listener(data);
    const call = this.#pending.get(data.id);
    this.#pending.delete(data.id);
    if (data.error) call?.reject(new CommandError(data.error));
    else call?.resolve(data.result);
  }

  /** @param {string} message */
  #died(message) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject } of this.#pending.values()) reject(new CommandError({ message, code: "worker" }));
    this.#pending.clear();
    this.#listener({ type: "died", message });
  }
}
