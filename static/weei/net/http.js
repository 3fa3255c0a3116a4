/** JSON over HTTP: problem details are final, anything else that fails is tried again. */
import { backoffMs, pause } from "./backoff.js";

/** The server's answer that something is not so. The message is its sentence. */
export class Problem extends Error {
  /** @param {number} status @param {Record<string, any>} body @param {number | null} [retryAfterMs] */
  constructor(status, body, retryAfterMs = null) {
    super(typeof body.title === "string" && body.title ? body.title : `The server answered ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.code = typeof body.code === "string" ? body.code : "error";
    this.field = typeof body.field === "string" ? body.field : null;
    this.body = body;
    this.retryAfterMs = retryAfterMs;
  }
}

/** No answer, or one that is not the application's: worth trying again. */
export class Unreachable extends Error {
  /** @param {string} message @param {number | null} [retryAfterMs] */
  constructor(message, retryAfterMs = null) {
    super(message);
    this.name = "Unreachable";
    this.retryAfterMs = retryAfterMs;
  }
}

/** @param {string | null | undefined} header seconds; the date form is not used by this server */
export function retryAfterMs(header) {
  const seconds = Number(header ?? NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
}

const isProblem = (/** @type {string | null | undefined} */ type) => (type ?? "").startsWith("application/problem+json");

/**
 * What an answer that is not a success means. 429 and 503 may be tried again after their `Retry-After`, problem detail or not.
 * @param {number} status @param {string | null | undefined} type @param {string | null | undefined} retryAfter @param {string} text
 */
export function failureOf(status, type, retryAfter, text) {
  const wait = retryAfterMs(retryAfter);
  let body = null;
  if (isProblem(type)) {
    try {
      body = JSON.parse(text);
    } catch {
      body = null;
    }
  }
  const busy = (status === 429 || status === 503) && wait !== null;
  if (body && typeof body === "object" && !busy) return new Problem(status, body, wait);
  if (busy || status === 0 || status === 429 || status >= 500) {
    return new Unreachable(body?.title ?? `The server answered ${status}.`, wait);
  }
  return new Problem(status, { title: `The server answered ${status} to this request.` }, wait);
}

/** @param {Response} response */
export async function failureOfResponse(response) {
  const text = await response.text().catch(() => "");
  return failureOf(response.status, response.headers.get("content-type"), response.headers.get("retry-after"), text);
}

export class Http {
  /** @param {{base: string, headers: () => Record<string, string>, fetch?: typeof globalThis.fetch}} options */
  constructor(options) {
    this.base = options.base;
    this.headers = options.headers;
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** @param {string} path */
  url(path) {
    return new URL(path, this.base).href;
  }

  /**
   * One request, one answer.
   * @param {string} method @param {string} path @param {unknown} [body] @param {AbortSignal} [signal]
   * @returns {Promise<any>} the JSON, or null for an empty answer
   */
  async json(method, path, body, signal) {
    const { value } = await this.#answer(method, path, body, signal);
    return value;
  }

  /** A list, page by page. @param {string} path @returns {Promise<any[]>} what each page holds, in order */
  async pages(path) {
    const found = [];
    for (let next = /** @type {string | null} */ (path); next !== null; ) {
      const page = await this.#answer("GET", next);
      found.push(page.value);
      next = page.next;
    }
    return found;
  }

  /**
   * @param {string} method @param {string} path @param {unknown} [body] @param {AbortSignal} [signal]
   * @returns {Promise<{value: any, next: string | null}>} `next`: where the list goes on
   */
  async #answer(method, path, body, signal) {
    const headers = { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...this.headers() };
    const response = await this.request(path, {
      method,
      headers,
      signal,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw await failureOfResponse(response);
    const text = await response.text().catch(() => {
      throw new Unreachable("The connection broke while the server answered.");
    });
    const next = /<([^>]*)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1] ?? null;
    return { value: text ? JSON.parse(text) : null, next };
  }

  /**
   * `fetch` whose network errors are `Unreachable`; an abort passes as it is.
   * @param {string} path @param {RequestInit} init
   */
  async request(path, init) {
    try {
      return await this.fetch(this.url(path), { cache: "no-store", credentials: "same-origin", ...init });
    } catch (error) {
      if (init.signal?.aborted) throw init.signal.reason;
      throw new Unreachable(`The server cannot be reached: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /**
   * The same, tried again until it is answered or aborted.
   * @param {string} method @param {string} path @param {unknown} [body] @param {AbortSignal} [signal]
   */
  retried(method, path, body, signal) {
    return retry(() => this.json(method, path, body, signal), signal);
  }
}

/**
 * @template T
 * @param {(attempt: number) => Promise<T>} action
 * @param {AbortSignal} [signal]
 * @param {{random?: () => number, wait?: typeof pause}} [options]
 * @returns {Promise<T>}
 */
export async function retry(action, signal, { random = Math.random, wait = pause } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await action(attempt);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      await wait(error.retryAfterMs ?? backoffMs(attempt, random), signal);
    }
  }
}
