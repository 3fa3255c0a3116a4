// Progress everywhere it takes long: how much time is left, told from how the bar went, and the percentage in the title.
import { secondsText } from "./format.js";

/** Less than this says nothing about the rest. */
const LEAST_MS = 2000;
const LEAST_PART = 0.01;
/** The pace is that of the last part of the way: work has quick and slow stretches. */
const WINDOW_MS = 30_000;

export class Pace {
  /** @type {Array<[at: number, fraction: number]>} */ #points = [];

  /** Seconds left, or null where nothing can be said. A bar that goes back begins anew.
   * @param {number | null} fraction @param {number} at milliseconds */
  left(fraction, at) {
    if (fraction === null || !Number.isFinite(fraction)) {
      this.#points = [];
      return null;
    }
    if (fraction < (this.#points.at(-1)?.[1] ?? 0)) this.#points = [];
    this.#points.push([at, fraction]);
    while (this.#points.length > 2 && at - (this.#points[1]?.[0] ?? at) > WINDOW_MS) this.#points.shift();
    const [from, done] = this.#points[0] ?? [at, fraction];
    if (at - from < LEAST_MS || fraction - done < LEAST_PART || fraction >= 1) return null;
    return ((1 - fraction) * (at - from)) / (1000 * (fraction - done));
  }
}

/** @param {number | null} seconds */
export const leftText = (seconds) => (seconds === null ? "" : `about ${secondsText(seconds < 60 ? Math.max(1, seconds) : Math.round(seconds / 60) * 60)} left`);

const title = document.title;

/** "42 % · name" while something goes on. @param {number | null} fraction null: as it was */
export function titleProgress(fraction) {
  const known = fraction !== null && Number.isFinite(fraction);
  const text = known ? `${Math.floor(100 * Math.min(1, Math.max(0, fraction)))} % · ${title}` : title;
  if (document.title !== text) document.title = text;
}

/** @type {Map<string, Pace>} */
const paces = new Map();

/** Bars with `data-left="id"` tell the element of that id how long it takes; one with `data-title` is in the title.
 * @param {ParentNode} root */
export function lookAtBars(root) {
  for (const bar of root.querySelectorAll("progress[data-left]")) {
    const key = bar.getAttribute("data-left") ?? "";
    const pace = paces.get(key) ?? new Pace();
    paces.set(key, pace);
    const said = document.getElementById(key);
    const { value, max } = /** @type {HTMLProgressElement} */ (bar);
    const left = pace.left(bar.hasAttribute("value") ? value / max : null, performance.now());
    if (said) said.textContent = leftText(left);
  }
}

/** @param {ParentNode} root */
export function lookAtTitle(root) {
  const bar = root.querySelector("progress[data-title]");
  if (bar instanceof HTMLProgressElement) titleProgress(bar.dataset["title"] === "off" ? null : bar.value / bar.max);
}

export function startProgress() {
  document.addEventListener("htmx:afterSwap", (event) => {
    const { target } = /** @type {CustomEvent} */ (event).detail;
    lookAtBars(target);
    lookAtTitle(target);
  });
  lookAtBars(document);
  lookAtTitle(document);
}
