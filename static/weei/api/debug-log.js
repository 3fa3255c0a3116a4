/**
 * The last 1,000 events of this browser profile, over jobs, tabs and reloads. Each event is a key of its own in localStorage: a tab writes
 * without reading first, so that none loses or garbles what another one wrote, and no lock is needed, which plain http does not have.
 */
import { CAPACITY, eventOf, isEvent, logFile } from "./log-file.js";

/** Behind it the time, so that the order of the keys is the order of the events. */
const EVENT = "weei.log:";
/** By job the ids of the server's events that were taken over last, also when they were deleted since. */
const SEEN = "weei.log-seen";
const SEEN_EVENTS = 20;
const SEEN_JOBS = 20;
/** Looking at all keys costs more than writing one. */
const WRITES_PER_TRIM = 50;

/** @typedef {import("../weei.js").TrainingDebugEvent} TrainingDebugEvent */
/** @typedef {Pick<Storage, "length" | "key" | "getItem" | "setItem" | "removeItem">} StorageLike */

export class DebugLog {
  /** @type {Map<string, string>} what the storage did not take: it lives as long as this page */ #memory = new Map();
  /** @type {Record<string, unknown>} */ #seen = {};
  #tab = crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36);
  #writes = 0;
  #storage;
  #wall;

  /** @param {{storage: StorageLike | undefined, wall?: () => number}} options */
  constructor({ storage, wall = Date.now }) {
    this.#storage = storage;
    this.#wall = wall;
  }

  /** @param {string} name @param {object} [details] @param {number} [at] milliseconds since 1970 */
  record(name, details = {}, at = this.#wall()) {
    const event = eventOf(new Date(at).toISOString(), name, details);
    this.#write(`${event.at}:${this.#tab}:${String(this.#writes).padStart(8, "0")}`, event);
  }

  /**
   * Events of a job as the server numbered them, oldest first. Tabs that take over the same ones write the same keys.
   * @param {string} jobId @param {any[]} rows
   */
  takeOver(jobId, rows) {
    const seen = new Set(this.seen(jobId));
    const fresh = rows.filter((row) => isEvent(row) && Number.isSafeInteger(row.id) && !seen.has(row.id));
    for (const { id, at, event, details } of fresh) {
      const origin = { jobId, from: "server" };
      this.#write(`${at}:server:${String(id).padStart(16, "0")}`, eventOf(at, event, Object.assign({ ...origin }, details, origin)));
      seen.add(id);
    }
    if (fresh.length) this.#remember(jobId, [...seen].sort((one, other) => one - other).slice(-SEEN_EVENTS));
  }

  /** Ids of the newest events of a job that were taken over, ascending. @param {string} jobId @returns {number[]} */
  seen(jobId) {
    const ids = this.#allSeen()[jobId];
    return Array.isArray(ids) ? ids.filter(Number.isSafeInteger) : [];
  }

  /** Oldest first. @returns {TrainingDebugEvent[]} */
  events() {
    return this.#keys().slice(-CAPACITY).map((key) => this.#read(key)).filter((event) => event !== null);
  }

  clear() {
    this.#remove(this.#keys());
  }

  /** @returns {File} */
  export() {
    const at = new Date(this.#wall()).toISOString();
    const name = `weei-debug-log-${at.slice(0, 19).replaceAll(":", "-")}.json`;
    return new File([JSON.stringify(logFile(this.events(), at), null, 2)], name, { type: "application/json" });
  }

  /** @param {string} place of the event among the others @param {TrainingDebugEvent} event */
  #write(place, event) {
    const key = EVENT + place;
    const text = JSON.stringify(event);
    if (this.#writes % WRITES_PER_TRIM === 0) this.#remove(this.#keys().slice(0, -CAPACITY));
    this.#writes += 1;
    if (this.#store(key, text)) return;
    // Full: the older half of what is stored makes room.
    this.#remove(this.#stored().slice(0, -CAPACITY / 2));
    if (!this.#store(key, text)) this.#memory.set(key, text);
  }

  /** @param {string} key @param {string} text @returns {boolean} whether the storage took it */
  #store(key, text) {
    try {
      this.#storage?.setItem(key, text);
    } catch {
      return false;
    }
    return this.#storage !== undefined;
  }

  /** An entry that was damaged is none. @param {string} key @returns {TrainingDebugEvent | null} */
  #read(key) {
    const event = parsed(this.#memory.get(key) ?? this.#get(key));
    if (isEvent(event)) return event;
    this.#remove([key]);
    return null;
  }

  /** Of all events, oldest first. @returns {string[]} */
  #keys() {
    return [...this.#stored(), ...this.#memory.keys()].sort();
  }

  /** @returns {string[]} */
  #stored() {
    try {
      const keys = Array.from({ length: this.#storage?.length ?? 0 }, (_, index) => this.#storage?.key(index) ?? "");
      return keys.filter((key) => key.startsWith(EVENT)).sort();
    } catch {
      return [];
    }
  }

  /** @param {string[]} keys */
  #remove(keys) {
    for (const key of keys) {
      this.#memory.delete(key);
      try {
        this.#storage?.removeItem(key);
      } catch {
        // Forbidden meanwhile: then it is not read any more either.
      }
    }
  }

  /** @param {string} key @returns {string | null} */
  #get(key) {
    try {
      return this.#storage?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  /** @returns {Record<string, unknown>} */
  #allSeen() {
    const kept = parsed(this.#get(SEEN));
    return typeof kept === "object" && kept !== null ? kept : this.#seen;
  }

  /** @param {string} jobId @param {number[]} ids */
  #remember(jobId, ids) {
    const others = Object.entries(this.#allSeen()).filter(([id]) => id !== jobId);
    this.#seen = Object.fromEntries([...others, [jobId, ids]].slice(-SEEN_JOBS));
    this.#store(SEEN, JSON.stringify(this.#seen));
  }
}

/** @param {string | null} text @returns {any} null when it is no JSON */
function parsed(text) {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null;
  }
}
