/** Other peers' snapshots and this browser's own: how fresh they are, by this browser's clock alone (C70), and what they say of progress. */
import { without } from "./copies.js";
import { LiveMetrics } from "./live-metrics.js";

const STALE_MS = 10_000;

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {{snapshot: Snapshot, receivedAt: number, connected: boolean, heardAt: number}} Entry */

export class DiagnosticsBoard {
  /** @type {Map<string, Entry>} */ #entries = new Map();
  #live = new LiveMetrics();
  #now;
  #wall;

  /** @param {{now?: () => number, wall?: () => number}} [clocks] */
  constructor({ now = () => performance.now(), wall = Date.now } = {}) {
    this.#now = now;
    this.#wall = wall;
  }

  /**
   * An older snapshot than the one shown is ignored; a lost connection keeps the last one.
   * @param {string} peerId @param {{snapshot?: Snapshot, heldMs?: number, connected?: boolean}} update
   */
  receive(peerId, { snapshot, heldMs = 0, connected = true }) {
    const entry = this.#entries.get(peerId);
    if (snapshot && (!entry || snapshot.sequence >= entry.snapshot.sequence)) {
      const held = Math.max(0, heldMs);
      const receivedAt = this.#wall() - held;
      this.#entries.set(peerId, { snapshot, connected, receivedAt, heardAt: this.#now() - held });
      this.#live.add(peerId, snapshot, receivedAt);
    } else if (entry) {
      entry.connected = connected;
    }
  }

  clear() {
    this.#entries.clear();
    this.#live.clear();
  }

  /** @param {string | undefined} jobId diagnostics of another job are not shown */
  #shown(jobId) {
    return [...this.#entries].filter(([, { snapshot }]) => !snapshot.assignment || !jobId || snapshot.assignment.jobId === jobId);
  }

  /** To be cloned before it is given out. @param {string | undefined} jobId @returns {Record<string, import("../weei.js").PeerExecutionDiagnostics>} */
  view(jobId) {
    const now = this.#now();
    return Object.fromEntries(
      this.#shown(jobId).map(([peerId, { snapshot, receivedAt, heardAt, connected }]) => {
        const ageMs = Math.max(0, now - heardAt);
        return [peerId, { ...without(snapshot, "metrics"), receivedAt, ageMs, connected, stale: !connected || ageMs > STALE_MS }];
      }),
    );
  }

  /** Of those who train now. @param {string | undefined} jobId @returns {Record<string, import("../weei.js").PeerProgress>} */
  progress(jobId) {
    const training = this.#shown(jobId).filter(([, { snapshot, connected }]) => connected && snapshot.stage === "training");
    return Object.fromEntries(training.map(([peerId, { snapshot, receivedAt }]) => [peerId, progressOf(snapshot, receivedAt)]));
  }

  /** Points to draw, by peer; these lists are never changed. */
  get liveMetrics() {
    return this.#live.byPeer;
  }
}

/** @param {Snapshot} snapshot @param {number} updatedAt */
function progressOf({ performance, metrics }, updatedAt) {
  const { processedExamples, totalExamples, currentExamplesPerSecond } = performance;
  return {
    processedExamples,
    ...(totalExamples === "unknown" ? {} : { totalExamples }),
    ...(metrics ? { metrics: { ...metrics } } : {}),
    ...(currentExamplesPerSecond === null ? {} : { recordsPerSecond: currentExamplesPerSecond }),
    updatedAt,
  };
}
