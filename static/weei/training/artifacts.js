/** Where a job's artifacts come from: this browser's cache, else the server; always verified by hash. */
import { sha256 } from "../hash.js";
import { compileModule } from "../host/module.js";
import { download } from "../net/download.js";
import { checkDeclared, snapshotsWorthKeeping } from "./slots.js";

const COMPILED_MODULES = 2;
/** Key of a storage failure among the transfer errors; the work goes on without the cache. */
const STORAGE = "storage";

/** @typedef {import("../types.js").ArtifactRef} ArtifactRef */
/** @typedef {import("../types.js").AuxiliaryRef} AuxiliaryRef */
/** @typedef {Pick<import("../store/artifacts.js").ArtifactStore, "get" | "put" | "delete">} Store */

export class JobArtifacts {
  /** @type {Map<string, Promise<WebAssembly.Module>>} by hash, newest last */ #compiled = new Map();
  /** @type {Set<string>} hashes whose stored bytes were verified by this page */ #verified = new Set();
  /** @type {Map<string, Blob>} what fills the model's auxiliary slots now, by hash */ #slots = new Map();
  #http;
  #store;
  #transfers;
  #events;
  #peerId;

  /**
   * @param {{http: import("../net/http.js").Http, store: Store, transfers: import("./transfers.js").TransferLog,
   *   events: Pick<import("./events.js").DeviceEvents, "began">, peerId: () => string}} options
   */
  constructor({ http, store, transfers, events, peerId }) {
    this.#http = http;
    this.#store = store;
    this.#transfers = transfers;
    this.#events = events;
    this.#peerId = peerId;
  }

  /**
   * @param {string} jobId @param {ArtifactRef} wanted
   * @param {{signal: AbortSignal, keep?: boolean, keptSnapshots?: number}} options `keep` false: used once, not worth room in the cache
   */
  async fetch(jobId, wanted, { signal, keep = true, keptSnapshots }) {
    const held = this.#slots.get(wanted.sha256) ?? (keep ? await this.#held(wanted) : null);
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
      const received = this.#events.began("transfer");
      const blob = await download(this.#http, path, wanted, { signal, onProgress: transfer.progress });
      received({ jobId, direction: "receive", bytes: wanted.bytes });
      return keep ? await this.#kept(wanted, blob, keptSnapshots) : blob;
    } catch (error) {
      if (!signal.aborted) this.#transfers.fail(wanted.sha256, error instanceof Error ? error.message : String(error));
      throw error;
    } finally {
      transfer.end();
    }
  }

  /**
   * What fills the model's slots, in their order. It stays at hand until other slots are asked for, so that a device without room in its
   * storage does not fetch gigabytes every round.
   * @param {string} jobId @param {AuxiliaryRef[]} slots @param {import("../types.js").ModelInfo} info @param {AbortSignal} signal
   */
  async auxiliary(jobId, slots, { auxiliaryWeights: declared = [] }, signal) {
    checkDeclared(slots, declared);
    const files = new Set(declared.filter((slot) => slot.sha256).map(({ id }) => id));
    const filled = [];
    for (const { id, ...wanted } of slots) {
      const keptSnapshots = files.has(id) ? undefined : snapshotsWorthKeeping(declared);
      const bytes = await this.fetch(jobId, wanted, { signal, keptSnapshots });
      this.#slots.set(wanted.sha256, bytes);
      filled.push({ id, bytes });
    }
    const named = new Set(slots.map(({ sha256: hash }) => hash));
    for (const hash of this.#slots.keys()) if (!named.has(hash)) this.#slots.delete(hash);
    return filled;
  }

  /**
   * @param {string} jobId @param {ArtifactRef} wanted @param {AbortSignal} signal
   * @param {() => void} compiling the bytes are here; called only when they have not been compiled before
   */
  async module(jobId, wanted, signal, compiling) {
    const compiled = this.#compiled.get(wanted.sha256);
    if (compiled) return compiled;
    const blob = await this.fetch(jobId, wanted, { signal });
    compiling();
    const module = blob.arrayBuffer().then((buffer) => compileModule(new Uint8Array(buffer)));
    this.#compiled.set(wanted.sha256, module);
    module.catch(() => this.#compiled.delete(wanted.sha256));
    const [oldest] = this.#compiled.keys();
    if (oldest && this.#compiled.size > COMPILED_MODULES) this.#compiled.delete(oldest);
    return module;
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

  /**
   * The stored Blob lies on the disk; what was received may lie in memory, up to gigabytes.
   * @param {ArtifactRef} wanted @param {Blob} blob @param {number | undefined} keptSnapshots
   */
  async #kept(wanted, blob, keptSnapshots) {
    try {
      const saved = this.#events.began("indexeddb.save");
      await this.#store.put(wanted.sha256, blob, { keptSnapshots });
      saved({ bytes: wanted.bytes });
      this.#verified.add(wanted.sha256);
      return (await this.#store.get(wanted.sha256, wanted.bytes)) ?? blob;
    } catch (error) {
      this.#storageFailed(error);
      return blob;
    }
  }

  /** @param {unknown} error */
  #storageFailed(error) {
    this.#transfers.fail(STORAGE, error instanceof Error ? error.message : String(error));
  }
}
