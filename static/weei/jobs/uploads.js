/** The files of a new job: hashed here, skipped where the server holds them already, else uploaded, three at once. */
import { sha256 } from "../hash.js";
import { upload } from "../net/upload.js";

const AT_ONCE = 3;

/** @typedef {import("../types.js").FileProgress} FileProgress */
/** @typedef {{fileName: string, bytes: number, sha256: string}} UploadedFile */

/**
 * @template T
 * @param {T[]} items @param {number} limit @param {(item: T, index: number) => Promise<void>} work
 */
export async function eachAtMost(items, limit, work) {
  let next = 0;
  const lane = async () => {
    while (next < items.length) {
      const index = next;
      next += 1;
      await work(/** @type {T} */ (items[index]), index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
}

export class FileUploads {
  /** @type {FileProgress[]} */ progress;
  #files;
  #http;
  #changed;
  #signal;
  #httpStack;

  /**
   * @param {File[]} files
   * @param {{http: import("../net/http.js").Http, changed: (progress: FileProgress[]) => void, signal?: AbortSignal, httpStack?: unknown}} options
   */
  constructor(files, { http, changed, signal, httpStack }) {
    this.#files = files;
    this.#http = http;
    this.#changed = changed;
    this.#signal = signal;
    this.#httpStack = httpStack;
    this.progress = files.map(({ name, size }) => ({ fileName: name, phase: "hashing", bytes: 0, totalBytes: size }));
  }

  /** @returns {Promise<UploadedFile[]>} in the order of the files */
  async run() {
    /** @type {string[]} */
    const hashes = [];
    await eachAtMost(this.#files, 1, async (file, index) => {
      hashes[index] = await this.#guard(index, () => this.#hash(file, index));
    });
    const held = await this.#held(hashes);
    await eachAtMost(this.#files, AT_ONCE, (file, index) => this.#guard(index, () => this.#send(file, index, hashes, held)));
    return this.#files.map(({ name, size }, index) => ({ fileName: name, bytes: size, sha256: /** @type {string} */ (hashes[index]) }));
  }

  /** @param {File} file @param {number} index */
  #hash(file, index) {
    return sha256(file, { signal: this.#signal, onProgress: (bytes) => this.#update(index, { bytes }) });
  }

  /** @param {string[]} hashes @returns {Promise<Set<string>>} */
  async #held(hashes) {
    const answer = await this.#http.retried("POST", "/api/v1/artifacts/held", { hashes: [...new Set(hashes)] }, this.#signal);
    return new Set(answer.held);
  }

  /** @param {File} file @param {number} index @param {string[]} hashes @param {Set<string>} held */
  async #send(file, index, hashes, held) {
    const digest = /** @type {string} */ (hashes[index]);
    if (held.has(digest) || hashes.indexOf(digest) < index) return this.#update(index, { phase: "held", bytes: file.size });
    this.#update(index, { phase: "uploading", bytes: 0 });
    await upload(file, file.size, {
      endpoint: this.#http.url("/bytes/uploads"),
      headers: this.#http.headers(),
      metadata: { kind: "file", filename: file.name, sha256: digest },
      signal: this.#signal,
      httpStack: this.#httpStack,
      onProgress: (bytes) => this.#update(index, { bytes }),
    });
    this.#update(index, { phase: "done", bytes: file.size });
  }

  /**
   * The file's own entry tells which one failed. @template T @param {number} index @param {() => Promise<T>} action
   */
  async #guard(index, action) {
    try {
      return await action();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#update(index, { error: message });
      throw error;
    }
  }

  /** @param {number} index @param {Partial<FileProgress>} change */
  #update(index, change) {
    Object.assign(/** @type {FileProgress} */ (this.progress[index]), change);
    this.#changed(this.progress);
  }
}
