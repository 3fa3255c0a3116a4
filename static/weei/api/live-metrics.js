/** What each peer's module reported while it trained, as points to draw: by this browser's clock, each report once. */

const MOST_POINTS = 500;

/** @typedef {import("../weei.js").LivePoint} LivePoint */

export class LiveMetrics {
  /** Lists are replaced, never changed. @type {Record<string, LivePoint[]>} */ byPeer = {};
  /** @type {Map<string, string>} the report that the last point of a peer came from */ #last = new Map();

  /** @param {string} peerId @param {import("../types.js").Snapshot} snapshot @param {number} at when it was received */
  add(peerId, { stage, metrics, assignment, performance }, at) {
    if (stage !== "training" || !metrics || !assignment) return;
    const report = `${assignment.attemptId} ${performance.lastProgressAt} ${performance.processedExamples}`;
    if (this.#last.get(peerId) === report) return;
    this.#last.set(peerId, report);
    const points = [...(this.byPeer[peerId] ?? []), { at, values: metrics }].slice(-MOST_POINTS);
    this.byPeer = { ...this.byPeer, [peerId]: points };
  }

  clear() {
    this.byPeer = {};
    this.#last.clear();
  }
}
