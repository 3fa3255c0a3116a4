/** When the server was last heard, and whether this machine has slept meanwhile. */
import { LEASE_SECONDS } from "../protocol.js";

const TICK_MS = 1_000;
const SLEPT_MS = 5_000;

export class Contact {
  #now;
  #wall;
  #heardAt = -Infinity;
  #heardWall = -Infinity;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #timer;
  #tick = { now: 0, wall: 0 };

  /** @param {{now: () => number, wall: () => number}} clocks the monotonic one may stop while a machine sleeps; then the other tells */
  constructor({ now, wall }) {
    this.#now = now;
    this.#wall = wall;
  }

  heard() {
    this.#heardAt = this.#now();
    this.#heardWall = this.#wall();
  }

  /** Milliseconds of silence by the clock that counted more. */
  silentMs() {
    return Math.max(this.#now() - this.#heardAt, this.#wall() - this.#heardWall);
  }

  /** The server may have given this peer's work to another one. */
  leaseMayHaveEnded() {
    return this.silentMs() > LEASE_SECONDS * 1000;
  }

  /** Call `woke` with the length of every gap in this machine's own running. @param {(gapMs: number) => void} woke */
  start(woke) {
    this.#tick = { now: this.#now(), wall: this.#wall() };
    this.#timer ??= setInterval(() => {
      const { now, wall } = this.#tick;
      this.#tick = { now: this.#now(), wall: this.#wall() };
      const gap = Math.max(this.#tick.now - now, this.#tick.wall - wall) - TICK_MS;
      if (gap > SLEPT_MS) woke(gap);
    }, TICK_MS);
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
