/** The one job whose state this page shows, kept up to date: one that the person coordinates, or the one this browser takes part in. */
import { retry } from "../net/http.js";
import { CheckpointPages } from "./checkpoint-pages.js";

/** @typedef {Record<string, any>} Json */
/** What the server tells of a job. @typedef {{wire: Json | null, checkpoints: Json[], complete: boolean, orders: Map<number | null, string[]>}} Told */
/** `id` is null for "whatever job this browser takes part in". @typedef {{id: string | null, job: string, checkpoints: string, chunks: string | null}} Followed */

/** @returns {Told} */
export const nothingTold = () => ({ wire: null, checkpoints: [], complete: false, orders: new Map() });

/** @param {string} id @returns {Followed} */
export function coordinated(id) {
  const job = `/api/v1/jobs/${encodeURIComponent(id)}`;
  return { id, job, checkpoints: `${job}/checkpoints`, chunks: `${job}/chunks` };
}

/** @returns {Followed} */
export const takenPartIn = () => ({ id: null, job: "/api/v1/peer/job", checkpoints: "/api/v1/peer/job/checkpoints", chunks: null });

export class LiveJob {
  /** @type {Followed | null} */ #followed = null;
  /** @type {CheckpointPages | null} */ #pages = null;
  /** @type {Promise<void> | null} */ #refreshing = null;
  #again = false;
  #http;
  #tell;
  #failed;
  #told = nothingTold();

  /**
   * @param {{http: import("../net/http.js").Http, tell: (told: Told) => void, failed: (error: unknown) => void}} of `failed` hears what went
   *   wrong in the background
   */
  constructor({ http, tell, failed }) {
    this.#http = http;
    this.#tell = tell;
    this.#failed = failed;
  }

  /** The id of the job that this page follows as its coordinator. @returns {string | null} */
  get coordinatedId() {
    return this.#followed?.id ?? null;
  }

  get wire() {
    return this.#told.wire;
  }

  /** @param {Followed | null} followed @returns {Promise<void>} when the job and its newest checkpoints are here */
  follow(followed) {
    this.#followed = followed;
    this.#refreshing = null;
    this.#again = false;
    this.#pages?.stop();
    this.#pages = followed && new CheckpointPages(followed.checkpoints, this.#http, {
      learn: (orders) => this.#learn(followed, orders),
      changed: (checkpoints, complete) => {
        if (this.#followed === followed) this.#show({ checkpoints, complete });
      },
    });
    this.#show(nothingTold());
    return followed ? this.refresh() : Promise.resolve();
  }

  /** Look at the job again; calls that come meanwhile are answered by one more look. @returns {Promise<void>} */
  refresh() {
    if (this.#refreshing) {
      this.#again = true;
      return this.#refreshing;
    }
    const refreshing = this.#look().finally(() => {
      if (this.#refreshing !== refreshing) return;
      this.#refreshing = null;
      if (!this.#again) return;
      this.#again = false;
      void this.refresh().catch(this.#failed);
    });
    this.#refreshing = refreshing;
    return refreshing;
  }

  /** What a command of the coordinator answered. @param {string} id @param {Json | null} wire */
  async accept(id, wire) {
    const followed = this.#followed;
    if (wire && followed && followed.id === id) await this.#accept(followed, wire);
  }

  /** Every checkpoint, also those of long ago. */
  async loadCheckpoints() {
    await this.#pages?.loadOlder();
  }

  async #look() {
    const followed = this.#followed;
    if (!followed) return;
    const answer = await this.#http.retried("GET", followed.job);
    const wire = followed.id === null ? answer.job : answer;
    if (this.#followed !== followed) return;
    if (!wire) return this.#show(nothingTold());
    const pages = this.#pages;
    await this.#accept(followed, wire);
    if (this.#followed !== followed) return;
    await pages?.update(wire.validating);
    void pages?.loadOlder().catch(this.#failed);
  }

  /** @param {Followed} followed @param {Json} wire */
  async #accept(followed, wire) {
    if (wire.queue) await this.#learn(followed, [wire.queue.order]);
    if (this.#followed !== followed) return;
    this.#show({ wire });
  }

  /** The ids of chunks in each order, asked for once. @param {Followed} followed @param {Array<number | null>} orders */
  async #learn(followed, orders) {
    for (const order of new Set(orders)) {
      if (this.#told.orders.has(order)) continue;
      const query = `?limit=5000${order === null ? "" : `&order=${order}`}`;
      const pages = await retry(() => this.#http.pages(`${followed.chunks}${query}`));
      const ids = pages.flatMap(({ chunkIds }) => chunkIds);
      if (this.#followed === followed) this.#told.orders.set(order, ids);
    }
  }

  /** @param {Partial<Told>} change */
  #show(change) {
    this.#told = { ...this.#told, ...change };
    this.#tell(this.#told);
  }
}
