// The pole on its cart: one episode of the policy, as the model tells it, step by step.
import { byId, setText } from "../dom.js";

const STEPS_PER_SECOND = 50;
/** The task ends by itself after so many steps. */
const MOST_STEPS = 500;
const MAX_SEED = 2n ** 64n - 1n;

/** Cart position in metres, pole angle in radians (positive leans right), and the push that follows: 0 left, 1 right.
 * @typedef {[number, number, number]} Step */

/** @param {string} text @returns {string} the seed, or an Error that says what is wrong */
export function checkedSeed(text) {
  const seed = text.trim();
  if (/^(0|[1-9][0-9]*)$/.test(seed) && BigInt(seed) <= MAX_SEED) return seed;
  throw new Error(`Seed must be a whole number from 0 to ${MAX_SEED}; found “${text}”.`);
}

/** What a person who does not see the picture is told. @param {number} round @param {string} seed @param {number} total @param {number} steps */
export function episodeText(round, seed, total, steps) {
  const length = steps >= MOST_STEPS ? `all ${MOST_STEPS} steps` : `${steps} step${steps === 1 ? "" : "s"}`;
  return `Round ${round}, seed ${seed}: it balanced for ${length}. Return ${total}.`;
}

export class CartpoleView {
  #asking;
  #slider = /** @type {HTMLInputElement} */ (byId("pole-step"));
  #seed = /** @type {HTMLInputElement} */ (byId("pole-seed"));
  #run = /** @type {HTMLButtonElement} */ (byId("pole-run"));
  #again = /** @type {HTMLButtonElement} */ (byId("pole-again"));
  #still = matchMedia("(prefers-reduced-motion: reduce)");
  #round = 0;
  #asked = 0;
  /** @type {Step[]} */ #steps = [];
  #text = "";
  /** Where the animation is, in steps; not a whole number. */
  #at = 0;
  /** Of the frame before; null while nothing moves. @type {number | null} */ #last = null;
  /** @type {Array<() => void>} */ #waiting = [];

  /** @param {import("./page.js").Asking} asking */
  constructor(asking) {
    this.#asking = asking;
    this.#run.addEventListener("click", () => (this.#last === null ? this.#play() : this.#pause()));
    this.#again.addEventListener("click", () => {
      this.#seed.value = String(Math.floor(Math.random() * 1_000_000));
      void this.#episode(true);
    });
    this.#seed.addEventListener("change", () => void this.#episode(!this.#still.matches));
    this.#slider.addEventListener("input", () => {
      this.#pause();
      this.#move(Number(this.#slider.value));
    });
  }

  /** @param {number} round */
  show(round) {
    this.#round = round;
    void this.#episode(!this.#still.matches);
  }

  /** Until the episode has been shown to its end; one that was not begun need not be. @returns {Promise<void>} */
  idle() {
    const untouched = this.#at === 0 && this.#last === null;
    return untouched || this.#at >= this.#end ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Index of the last step. */
  get #end() {
    return Math.max(0, this.#steps.length - 1);
  }

  /** Ask for the episode of the seed. @param {boolean} moving whether to play it at once */
  async #episode(moving) {
    const turn = ++this.#asked;
    try {
      const seed = checkedSeed(this.#seed.value);
      const output = await this.#asking.ask({ seed });
      if (turn !== this.#asked) return;
      this.#asking.problem(null);
      this.#begin(output, seed, moving);
    } catch (error) {
      if (turn === this.#asked) this.#asking.problem(error);
    }
  }

  /** @param {{return: number, steps: Step[]}} output @param {string} seed @param {boolean} moving */
  #begin(output, seed, moving) {
    this.#pause();
    this.#steps = output.steps;
    this.#text = episodeText(this.#round, seed, output.return, output.steps.length);
    this.#slider.max = String(this.#end);
    byId("pole-picture").setAttribute("aria-label", `A pole on a cart. ${this.#text}`);
    this.#run.disabled = this.#again.disabled = false;
    this.#move(0);
    if (moving) this.#play();
    else setText("play-status", this.#text);
  }

  #play() {
    if (this.#at >= this.#end) this.#move(0);
    setText("play-status", `Round ${this.#round} balances…`);
    setText("pole-run", "Pause");
    this.#last = performance.now();
    requestAnimationFrame((now) => this.#frame(now));
  }

  #pause() {
    this.#last = null;
    setText("pole-run", "Play");
  }

  /** @param {number} now */
  #frame(now) {
    if (this.#last === null) return;
    const speed = Number(/** @type {HTMLSelectElement} */ (byId("pole-speed")).value);
    // A page that was hidden goes on where it stood.
    const seconds = Math.min(0.1, Math.max(0, now - this.#last) / 1000);
    this.#last = now;
    this.#move(this.#at + seconds * STEPS_PER_SECOND * speed);
    if (this.#at < this.#end) return void requestAnimationFrame((next) => this.#frame(next));
    this.#pause();
    setText("play-status", this.#text);
  }

  /** @param {number} at */
  #move(at) {
    this.#at = Math.min(at, this.#end);
    const index = Math.floor(this.#at);
    const [x, angle, action] = this.#steps[index] ?? [0, 0, 0];
    byId("pole-cart").setAttribute("transform", `translate(${x} 0)`);
    byId("pole-pole").setAttribute("transform", `rotate(${(angle * 180) / Math.PI})`);
    byId("pole-push").setAttribute("transform", action === 1 ? "" : "scale(-1 1)");
    this.#slider.value = String(index);
    setText("pole-count", String(this.#steps.length ? index + 1 : 0));
    if (this.#at >= this.#end) for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
