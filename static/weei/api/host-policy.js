/** What the Content-Security-Policy of a page elsewhere forbids us, in words: the browser tells the page, but not whoever's request failed. */
import { pause } from "../net/backoff.js";

/** A violation is told beside the failure, a moment before or after it. */
const TOLD_MS = 250;

export class HostPolicy {
  /** @type {string | null} */ #forbids = null;
  /** @type {() => void} */ #told = () => {};
  /** @type {Promise<void>} */ #violated;
  #base;

  /** @param {string} base our own origin @param {EventTarget} document */
  constructor(base, document) {
    this.#base = base;
    this.#violated = new Promise((resolve) => (this.#told = resolve));
    document.addEventListener("securitypolicyviolation", (event) => this.#note(/** @type {SecurityPolicyViolationEvent} */ (event)));
  }

  /** @returns {Promise<string | null>} the sentence, if something of ours was forbidden; what a Worker was forbidden, only the Worker is told */
  async explain() {
    await Promise.race([this.#violated, pause(TOLD_MS)]);
    if (!this.#forbids) return null;
    return `The Content-Security-Policy of this page forbids ${this.#forbids}. It must allow: ${this.needed}`;
  }

  /** The directives that a host page needs. */
  get needed() {
    const socket = this.#base.replace(/^http/, "ws");
    return `script-src ${this.#base} 'wasm-unsafe-eval'; worker-src blob: ${this.#base}; connect-src ${this.#base} ${socket}`;
  }

  /** @param {SecurityPolicyViolationEvent} event */
  #note({ blockedURI, effectiveDirective, disposition }) {
    const ours = /^(blob|wasm-eval)/.test(blockedURI) || blockedURI.startsWith(this.#base);
    if (!ours || disposition === "report") return;
    this.#forbids = `${effectiveDirective} ${blockedURI}`;
    this.#told();
  }
}
