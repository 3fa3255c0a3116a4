/** Freshness of other peers' snapshots, by this browser's clock alone (C70). */

const STALE_MS = 10_000;

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {{snapshot: Snapshot, receivedAt: number, connected: boolean, heardAt: number}} Entry */

export class DiagnosticsBoard {
  /** @type {Map<string, Entry>} */ #entries = new Map();
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
      this.#entries.set(peerId, { snapshot, connected, receivedAt: this.#wall() - held, heardAt: this.#now() - held });
    } else if (entry) {
      entry.connected = connected;
    }
  }

  clear() {
    this.#entries.clear();
  }

  /** @param {string | undefined} jobId diagnostics of another job are not shown */
  view(jobId) {
    const now = this.#now();
    return Object.fromEntries(
      [...this.#entries]
        .filter(([, { snapshot }]) => !snapshot.assignment || !jobId || snapshot.assignment.jobId === jobId)
        .map(([peerId, { snapshot, receivedAt, heardAt, connected }]) => {
          const ageMs = Math.max(0, now - heardAt);
          return [peerId, { ...snapshot, receivedAt, ageMs, connected, stale: !connected || ageMs > STALE_MS }];
        }),
    );
  }
}
