/** Where a job's artifacts come from: this browser's cache, else the server; always verified by hash. */
import { sha256 } from "../hash.js";
import { compileModule } from "../host/module.js";
import { download } from "../net/download.js";

const COMPILED_MODULES = 2;
/** Key of a storage failure among the transfer errors; the work goes on without the cache. */
const STORAGE = "storage";

/** @typedef {import("../types.js").ArtifactRef} ArtifactRef */
/** @typedef {{get(sha256: string, bytes: number): Promise<Blob | null>, put(sha256: string, blob: Blob): Promise<void>, delete(sha256: string): Promise<void>}} Store */

export class JobArtifacts {
  /** @type {Map<string, Promise<WebAssembly.Module>>} by hash, newest last */ #compiled = new Map();
  /** @type {Set<string>} hashes whose stored bytes were verified by this page */ #verified = new Set();
  #http;
  #store;
  #transfers;
  #peerId;

  /**
   * @param {{http: import("../net/http.js").Http, store: Store, transfers: import("./transfers.js").TransferLog, peerId: () => string}} options
   */
  constructor({ http, store, transfers, peerId }) {
    this.#http = http;
    this.#store = store;
    this.#transfers = transfers;
    this.#peerId = peerId;
  }

  /**
   * @param {string} jobId @param {ArtifactRef} wanted
   * @param {{signal: AbortSignal, keep?: boolean}} options `keep` false: used once, not worth room in the cache
   */
  async fetch(jobId, wanted, { signal, keep = true }) {
    const held = keep ? await this.#held(wanted) : null;
    signal.throwIfAborted();
    if (held) return held;
    const transfer = this.#transfers.begin({
      jobId,
      peerId: this.#peerId(),
      artifactId: wanted.sha256,
      direction: "receive",
      totalBytes: wanted.bytes,
    });
    try {
      const path = `/bytes/jobs/${jobId}/${wanted.sha256}`;
      const blob = await download(this.#http, path, wanted, { signal, onProgress: transfer.progress });
      if (keep) await this.#keep(wanted, blob);
      return blob;
    } catch (error) {
      if (!signal.aborted) this.#transfers.fail(wanted.sha256, error instanceof Error ? error.message : String(error));
      throw error;
    } finally {
      transfer.end();
    }
  }

  /** @param {string} jobId @param {ArtifactRef} wanted @param {AbortSignal} signal */
  async module(jobId, wanted, signal) {
    const compiled = this.#compiled.get(wanted.sha256);
    if (compiled) return compiled;
    const blob = await this.fetch(jobId, wanted, { signal });
    const compiling = blob.arrayBuffer().then((buffer) => compileModule(new Uint8Array(buffer)));
    this.#compiled.set(wanted.sha256, compiling);
    compiling.catch(() => this.#compiled.delete(wanted.sha256));
    const [oldest] = this.#compiled.keys();
    if (oldest && this.#compiled.size > COMPILED_MODULES) this.#compiled.delete(oldest);
    return compiling;
  }

  /** @param {ArtifactRef} wanted */
  async #held(wanted) {
    try {
      const blob = await this.#store.get(wanted.sha256, wanted.bytes);
      if (!blob || this.#verified.has(wanted.sha256)) return blob;
      // Once per page: what lies on a disk may have changed since it was verified.
      if ((await sha256(blob)) !== wanted.sha256) return void (await this.#store.delete(wanted.sha256));
      this.#verified.add(wanted.sha256);
      return blob;
    } catch (error) {
      this.#storageFailed(error);
      return null;
    }
  }

  /** @param {ArtifactRef} wanted @param {Blob} blob */
  async #keep(wanted, blob) {
    try {
      await this.#store.put(wanted.sha256, blob);
      this.#verified.add(wanted.sha256);
    } catch (error) {
      this.#storageFailed(error);
    }
  }

  /** @param {unknown} error */
  #storageFailed(error) {
    this.#transfers.fail(STORAGE, error instanceof Error ? error.message : String(error));
  }
}
