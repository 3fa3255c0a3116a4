/** Artifacts on their way, for people: bytes, speed and time left (C74). */
import { RateWindow, secondsLeft } from "./clock.js";

/** @typedef {import("../types.js").Transfer} Transfer */

export class TransferLog {
  /** @type {Map<string, {transfer: Omit<Transfer, "bytesPerSecond" | "remainingSeconds">, rate: RateWindow}>} */ #running = new Map();
  /** @type {Record<string, string>} by artifact id */ errors = {};
  #now;
  #changed;
  #failed;

  /** @param {{now: () => number, changed: () => void, failed?: (artifactId: string, message: string) => void}} options */
  constructor({ now, changed, failed = () => {} }) {
    this.#now = now;
    this.#changed = changed;
    this.#failed = failed;
  }

  /** @param {Omit<Transfer, "bytes" | "bytesPerSecond" | "remainingSeconds">} of */
  begin(of) {
    const entry = { transfer: { ...of, bytes: 0 }, rate: new RateWindow(this.#now) };
    const key = `${of.direction}:${of.artifactId}`;
    this.#running.set(key, entry);
    delete this.errors[of.artifactId];
    entry.rate.add(0);
    return {
      progress: (/** @type {number} */ bytes) => {
        entry.transfer.bytes = Math.min(bytes, of.totalBytes);
        entry.rate.add(bytes);
        this.#changed();
      },
      end: () => {
        this.#running.delete(key);
        this.#changed();
      },
    };
  }

  /** @param {string} artifactId @param {string} message */
  fail(artifactId, message) {
    this.errors[artifactId] = message;
    this.#failed(artifactId, message);
    this.#changed();
  }

  /** @returns {Transfer[]} */
  list() {
    return [...this.#running.values()].map(({ transfer, rate }) => {
      const perSecond = rate.current();
      const remainingSeconds = secondsLeft(transfer.bytes, transfer.totalBytes, perSecond);
      return { ...transfer, bytesPerSecond: perSecond ?? 0, ...(remainingSeconds === undefined ? {} : { remainingSeconds }) };
    });
  }
}
