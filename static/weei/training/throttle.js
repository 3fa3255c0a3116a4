/** Runs an action at once, then at most once per interval; a call in between is not lost but late. */
export class Throttle {
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  #waiting = false;
  #action;
  #intervalMs;

  /** @param {() => void} action @param {number} intervalMs */
  constructor(action, intervalMs) {
    this.#action = action;
    this.#intervalMs = intervalMs;
  }

  call() {
    if (this.#timer) {
      this.#waiting = true;
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#waiting) this.call();
    }, this.#intervalMs);
    this.#waiting = false;
    this.#action();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = false;
  }
}
