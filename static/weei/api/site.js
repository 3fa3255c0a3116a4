/** The page around weei.js: one of our own, where everything works, or one of another site, where only what an administrator allowed does. */
import { Problem } from "../net/http.js";
import { askForToken } from "./sign-in.js";

const SCRIPT = "/static/weei/weei.js";
/** Eight bytes that every WebAssembly engine compiles, unless the page's policy forbids compiling. */
const EMPTY_MODULE = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

export class Site {
  /** @type {string | null} why the widget is not to be had here, as a sentence */ reason = null;
  /** @type {string | null} the name of the person who signed in on this page */ user = null;
  #http;
  #storage;
  #policy;
  #page;
  #tryWorker;

  /**
   * @param {{http: import("../net/http.js").Http, storage: import("./storage.js").DeviceStorage,
   *   policy: import("./host-policy.js").HostPolicy, page: Window & typeof globalThis, tryWorker: () => Promise<unknown>}} parts
   *   `tryWorker`: starts the control Worker, or rejects
   */
  constructor({ http, storage, policy, page, tryWorker }) {
    this.#http = http;
    this.#storage = storage;
    this.#policy = policy;
    this.#page = page;
    this.#tryWorker = tryWorker;
  }

  get training() {
    return this.reason === null;
  }

  get foreign() {
    return this.#page.origin !== this.#http.base;
  }

  /** Learn what this page may do. Pages of our own need not ask. */
  async learn() {
    if (!this.foreign) return;
    await this.#ask();
    if (this.training) await this.#tryParts();
  }

  /** Called while a click is handled. */
  async signIn() {
    if (!this.foreign) throw new Error("This is one of Weei's own pages: sign in under “Sign in”.");
    this.#storage.setUser(await askForToken(this.#http.base, this.#page));
    await this.learn();
    if (this.reason) throw new Error(this.reason);
  }

  /** The server forgets the token, and so does this page. */
  async signOut() {
    if (!this.#storage.user()) return;
    await this.#http.json("POST", "/api/v1/site/sign-out");
    this.#storage.setUser(null);
    await this.#ask();
  }

  async #ask() {
    try {
      const { training, reason, user } = await this.#http.json("GET", "/api/v1/site");
      this.reason = training ? null : reason;
      this.user = user;
    } catch (error) {
      this.reason = error instanceof Problem ? error.message : await this.#whyUnread();
    }
  }

  /** No answer that this page may read. Static files are open to all pages: if they come, only its origin is in the way. */
  async #whyUnread() {
    const forbidden = await this.#policy.explain();
    if (forbidden) return forbidden;
    const { base } = this.#http;
    const reached = await this.#http.request(SCRIPT, { method: "HEAD" }).catch(() => null);
    if (!reached?.ok) return `The server ${base} cannot be reached. Load this page again in a moment.`;
    return `The origin ${this.#page.origin} is not registered at ${base}. An administrator of that server can register it.`;
  }

  /** What training needs and a page's policy may forbid. */
  async #tryParts() {
    try {
      new WebAssembly.Module(EMPTY_MODULE);
      await this.#tryWorker();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const hint = `If this page has a Content-Security-Policy, it must allow: ${this.#policy.needed}`;
      this.reason = (await this.#policy.explain()) ?? `Training cannot run on this page: ${message} ${hint}`;
    }
  }
}
