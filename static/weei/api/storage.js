/** What this browser remembers: its peer and its owner's choices. A browser that refuses storage remembers for the page's life. */
import { checkWorkerLimit, isWorkerLimit, MOST_WORKERS } from "../training/workers.js";

const PEER = "weei.peer";
const USER = "weei.user";
export const PREFERENCES = "weei.preferences";
const BACKENDS = ["auto", "cpu", "gpu", "hybrid"];

/** @typedef {import("../types.js").DevicePreferences} DevicePreferences */

export class DeviceStorage {
  /** @type {Map<string, string>} */ #fallback = new Map();
  #storage;

  /** @param {Storage | undefined} storage */
  constructor(storage) {
    this.#storage = storage;
  }

  /** @returns {{peerId: string, token: string} | null} */
  peer() {
    const value = this.#read(PEER);
    return typeof value?.peerId === "string" && typeof value?.token === "string" ? value : null;
  }

  /** @param {{peerId: string, token: string} | null} peer */
  setPeer(peer) {
    this.#write(PEER, peer);
  }

  /** @returns {string | null} the token of the person who signed in on this page of another site */
  user() {
    const token = this.#read(USER);
    return typeof token === "string" ? token : null;
  }

  /** @param {string | null} token */
  setUser(token) {
    this.#write(USER, token);
  }

  /** @param {number | "unknown"} cores @returns {DevicePreferences} */
  preferences(cores) {
    const kept = this.#read(PREFERENCES) ?? {};
    const asMany = cores === "unknown" ? 1 : Math.min(cores, MOST_WORKERS);
    return {
      maxLocalWorkers: isWorkerLimit(kept.maxLocalWorkers) ? kept.maxLocalWorkers : asMany,
      backendPreference: BACKENDS.includes(kept.backendPreference) ? kept.backendPreference : "auto",
      gpuMemoryBudgetMiB: Number.isInteger(kept.gpuMemoryBudgetMiB) && kept.gpuMemoryBudgetMiB > 0 ? kept.gpuMemoryBudgetMiB : 1024,
    };
  }

  /** @param {DevicePreferences} preferences */
  setPreferences(preferences) {
    checkWorkerLimit(preferences.maxLocalWorkers);
    if (!BACKENDS.includes(preferences.backendPreference)) {
      throw new Error(`backendPreference must be one of ${BACKENDS.join(", ")}; found ${String(preferences.backendPreference)}.`);
    }
    const budget = preferences.gpuMemoryBudgetMiB;
    if (!Number.isInteger(budget) || budget < 1) throw new Error(`gpuMemoryBudgetMiB must be a whole number of 1 or more; found ${String(budget)}.`);
    this.#write(PREFERENCES, preferences);
  }

  /** @param {string} key @returns {any} */
  #read(key) {
    try {
      return JSON.parse(this.#storage?.getItem(key) ?? this.#fallback.get(key) ?? "null");
    } catch {
      return null;
    }
  }

  /** @param {string} key @param {unknown} value */
  #write(key, value) {
    const text = JSON.stringify(value);
    this.#fallback.set(key, text);
    try {
      this.#storage?.setItem(key, text);
    } catch {
      // Full or forbidden: the fallback keeps it for this page.
    }
  }
}
