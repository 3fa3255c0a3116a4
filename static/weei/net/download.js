/** Artifacts by hash: fetched in one stream, resumed where the connection broke, verified while they arrive. */
import { streamingSha256 } from "../hash.js";
import { failureOfResponse, retry, Unreachable } from "./http.js";

/** Received pieces are folded into a Blob at this size, so that they leave the JavaScript heap. */
const FOLD_BYTES = 8 * 1024 * 1024;

/** The bytes are not those of the hash, twice in a row (C49). */
export class WrongBytes extends Error {
  /** @param {string} found @param {import("../types.js").ArtifactRef} wanted @param {number} bytes */
  constructor(found, wanted, bytes) {
    super(`The bytes received are not those asked for: ${bytes} bytes with SHA-256 ${found}; expected ${wanted.bytes} bytes with ${wanted.sha256}.`);
    this.name = "WrongBytes";
    this.code = "hash_mismatch";
  }
}

/** One artifact on its way. Survives broken connections; `run` may be called again after `Unreachable`. */
class Download {
  /** @type {Blob[]} */ #folded = [];
  /** @type {Uint8Array<ArrayBuffer>[]} */ #loose = [];
  #looseBytes = 0;
  /** @type {import("../vendor.js").Hasher | null} */ #hasher = null;
  bytes = 0;

  /** @param {import("./http.js").Http} http @param {string} path @param {number} expected @param {{signal?: AbortSignal, onProgress?: (bytes: number) => void}} options */
  constructor(http, path, expected, options) {
    this.http = http;
    this.path = path;
    this.expected = expected;
    this.options = options;
  }

  async #restart() {
    this.#folded = [];
    this.#loose = [];
    this.#looseBytes = 0;
    this.bytes = 0;
    this.#hasher = await streamingSha256();
  }

  /** @returns {Promise<{blob: Blob, sha256: string}>} */
  async run() {
    if (!this.#hasher) await this.#restart();
    const { signal } = this.options;
    const headers = new Headers(this.http.headers());
    if (this.bytes > 0) headers.set("Range", `bytes=${this.bytes}-`);
    const response = await this.http.request(this.path, { headers, signal });
    if (!response.ok) throw await failureOfResponse(response);
    if (this.bytes > 0 && response.status !== 206) await this.#restart();
    await this.#read(/** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body));
    const sha256 = /** @type {import("../vendor.js").Hasher} */ (this.#hasher).digest("hex");
    return { blob: new Blob([...this.#folded, ...this.#loose]), sha256 };
  }

  /** @param {ReadableStream<Uint8Array<ArrayBuffer>>} body */
  async #read(body) {
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.#take(value);
        // More than was declared can only be wrong; it is not read to its end.
        if (this.bytes > this.expected) return void (await reader.cancel());
      }
    } catch (error) {
      if (this.options.signal?.aborted) throw this.options.signal.reason;
      throw new Unreachable(`The download broke off: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (this.bytes < this.expected) throw new Unreachable(`The download ended after ${this.bytes} of ${this.expected} bytes.`);
  }

  /** @param {Uint8Array<ArrayBuffer>} piece */
  #take(piece) {
    this.#hasher?.update(piece);
    this.#loose.push(piece);
    this.#looseBytes += piece.byteLength;
    this.bytes += piece.byteLength;
    if (this.#looseBytes >= FOLD_BYTES) {
      this.#folded.push(new Blob(this.#loose));
      this.#loose = [];
      this.#looseBytes = 0;
    }
    this.options.onProgress?.(this.bytes);
  }
}

/**
 * The verified artifact. Wrong bytes are fetched once more, whole.
 * @param {import("./http.js").Http} http
 * @param {string} path
 * @param {import("../types.js").ArtifactRef} wanted
 * @param {{signal?: AbortSignal, onProgress?: (bytes: number) => void, random?: () => number}} [options]
 */
export async function download(http, path, wanted, options = {}) {
  for (let again = false; ; again = true) {
    const attempt = new Download(http, path, wanted.bytes, options);
    const { blob, sha256 } = await retry(() => attempt.run(), options.signal, options.random ? { random: options.random } : {});
    if (sha256 === wanted.sha256 && blob.size === wanted.bytes) return blob;
    if (again) throw new WrongBytes(sha256, wanted, blob.size);
  }
}
