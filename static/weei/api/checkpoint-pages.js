/** A job's checkpoints, oldest first, read page by page from the newest, so that a job of thousands shows its last ones at once. */

const PAGE = 200;
/** With each look the newest ones are read again, because their evaluation ends later. */
const NEWEST = 20;

/** @typedef {Record<string, any>} Checkpoint */

const roundOf = (/** @type {Checkpoint | undefined} */ checkpoint) => /** @type {number | undefined} */ (checkpoint?.artifact.round);
const isPending = (/** @type {Checkpoint} */ { validation }) => validation === "due" || validation === "running";

export class CheckpointPages {
  /** Replaced, never changed. @type {Checkpoint[]} */ list = [];
  complete = false;
  /** @type {Promise<void> | null} */ #older = null;
  #stopped = false;
  #path;
  #http;
  #changed;
  #learn;

  /**
   * @param {string} path @param {import("../net/http.js").Http} http
   * @param {{learn: (orders: Array<number | null>) => Promise<void>, changed: (list: Checkpoint[], complete: boolean) => void}} of `learn` is awaited
   *   before checkpoints whose pass goes by these orders are shown
   */
  constructor(path, http, { learn, changed }) {
    this.#path = path;
    this.#http = http;
    this.#learn = learn;
    this.#changed = changed;
  }

  /** Read what is new, and what is or was being evaluated. @param {number[]} validating rounds */
  async update(validating) {
    const last = roundOf(this.list.at(-1));
    const pending = this.list.filter(isPending).map(({ artifact }) => artifact.round);
    let page = await this.#read({ limit: last === undefined ? PAGE : NEWEST });
    let oldest = roundOf(page[0]) ?? 0;
    while (page.length && last !== undefined && oldest > last + 1) {
      page = await this.#read({ before: oldest, limit: PAGE });
      oldest = roundOf(page[0]) ?? oldest;
    }
    for (const round of new Set([...validating, ...pending])) {
      if (round < oldest) await this.#read({ before: round + 1, limit: 1 });
    }
  }

  /** Read the pages before the oldest known one. @returns {Promise<void>} */
  loadOlder() {
    this.#older ??= this.#readOlder().finally(() => {
      this.#older = null;
    });
    return this.#older;
  }

  stop() {
    this.#stopped = true;
  }

  async #readOlder() {
    while (!this.complete && !this.#stopped) await this.#read({ before: roundOf(this.list[0]), limit: PAGE });
  }

  /** @param {{before?: number | undefined, limit: number}} of @returns {Promise<Checkpoint[]>} the page, oldest first */
  async #read({ before, limit }) {
    const query = before === undefined ? "" : `&before=${before}`;
    const page = /** @type {Checkpoint[]} */ (await this.#http.retried("GET", `${this.#path}?limit=${limit}${query}`));
    await this.#learn(page.filter(({ remaining }) => remaining).map(({ remaining }) => remaining.order));
    const reachesOldest = this.list.length === 0 || before === roundOf(this.list[0]);
    this.complete ||= page.length < limit && reachesOldest;
    const byRound = new Map([...this.list, ...page].map((checkpoint) => [checkpoint.artifact.round, checkpoint]));
    this.list = [...byRound.values()].sort((one, other) => one.artifact.round - other.artifact.round);
    this.#changed(this.list, this.complete);
    return page.reverse();
  }
}
