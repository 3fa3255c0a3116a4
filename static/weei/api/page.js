/** What weei.js takes from, and tells to, the page around it. */
import { TOPICS } from "../protocol.js";
import { Throttle } from "../training/throttle.js";

const HINT_GAP_MS = 250;

/** @param {string} name @returns {string | null} */
export function meta(name) {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? null;
}

/** Beside the session's cookie, which only our own pages have. @param {string} base our own origin @returns {Record<string, string>} */
export function csrfHeaders(base) {
  return location.origin === base ? { "X-CSRFToken": csrfToken() } : {};
}

/** Django's token, from the page or the cookie. */
function csrfToken() {
  return meta("csrf-token") ?? cookieToken(document.cookie, location.port || "80") ?? "";
}

/** Browsers do not separate cookies by port, so their names do (settings.py). @param {string} cookies @param {string} port */
export function cookieToken(cookies, port) {
  const found = new Map(cookies.split("; ").map((cookie) => [cookie.split("=", 1)[0], cookie.slice(cookie.indexOf("=") + 1)]));
  return found.get("__Host-weei_csrf") ?? found.get(`weei_csrf_${port}`);
}

/** Tells `document` to look again, one event per topic, so that HTMX fragments refresh themselves. */
export class PageHints {
  /** @type {Map<string, Set<string>>} topics by job */ #waiting = new Map();
  #throttle = new Throttle(() => this.#dispatch(), HINT_GAP_MS);

  /** @param {string} jobId @param {string[]} what */
  hint(jobId, what) {
    const topics = this.#waiting.get(jobId) ?? new Set();
    for (const topic of what.includes("everything") ? TOPICS : what) topics.add(topic);
    this.#waiting.set(jobId, topics);
    this.#throttle.call();
  }

  #dispatch() {
    for (const [jobId, topics] of this.#waiting) {
      for (const topic of topics) document.dispatchEvent(new CustomEvent(`weei:${topic}`, { detail: { jobId } }));
    }
    this.#waiting.clear();
  }
}

/** Keeps the screen on while this device trains, where the browser can. */
export class WakeLock {
  /** @type {WakeLockSentinel | null} */ #lock = null;
  #wanted = false;

  constructor() {
    // A hidden page loses its lock; it is asked for again when it is seen again.
    document.addEventListener("visibilitychange", () => void this.#update());
  }

  /** @param {boolean} wanted */
  want(wanted) {
    if (wanted === this.#wanted) return;
    this.#wanted = wanted;
    void this.#update();
  }

  async #update() {
    const visible = document.visibilityState === "visible";
    if (!this.#wanted || !visible) {
      const lock = this.#lock;
      this.#lock = null;
      await lock?.release().catch(() => {});
    } else if (!this.#lock && navigator.wakeLock) {
      this.#lock = await navigator.wakeLock.request("screen").catch(() => null);
    }
  }
}
