/** Fetches this peer's state: when no hint came for a while, after a sleep, and whenever somebody must know. */
import { POLL_SECONDS } from "../protocol.js";
import { Problem, Unreachable } from "../net/http.js";

/** @typedef {import("../types.js").PeerState} PeerState */

export class Poller {
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  /** @type {Promise<void> | null} */ #running = null;
  #states = 0;
  #stopped = false;
  #options;

  /**
   * @param {{http: import("../net/http.js").Http, heard(): void, apply(state: PeerState): void, unauthorized(): void,
   *   failed(message: string): void}} options
   */
  constructor(options) {
    this.#options = options;
  }

  start() {
    this.#stopped = false;
    this.#schedule();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** A state came, by whatever way: an answer that is still on its way may be older. */
  stateCame() {
    this.#states += 1;
    this.#schedule();
  }

  /** Ask once; calls that come meanwhile share the answer. */
  poll() {
    this.#running ??= this.#once().finally(() => {
      this.#running = null;
      this.#schedule();
    });
    return this.#running;
  }

  #schedule() {
    clearTimeout(this.#timer);
    if (!this.#stopped) this.#timer = setTimeout(() => void this.poll(), POLL_SECONDS * 1000);
  }

  async #once() {
    const before = this.#states;
    try {
      const state = await this.#options.http.json("GET", "/api/v1/peer/state");
      if (this.#stopped) return;
      this.#options.heard();
      if (before === this.#states) this.#options.apply(state);
    } catch (error) {
      if (error instanceof Problem && error.code === "unauthorized") this.#options.unauthorized();
      else if (!(error instanceof Unreachable)) this.#options.failed(error instanceof Error ? error.message : String(error));
    }
  }
}
