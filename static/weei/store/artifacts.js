/**
 * Modules, chunks and auxiliary weights as Blobs in IndexedDB, by SHA-256: kept over reloads, also on plain http where the Cache API and
 * OPFS do not exist. A cache only: whatever fails here costs a download, never the work.
 */

const DATABASE = "weei-artifacts";
const STORE = "artifacts";
const BY_USE = "usedAt";
/** The auxiliary weights of one job may take 3 GiB. */
const DEFAULT_BUDGET = 4 * 1024 ** 3;

/** @typedef {{sha256: string, blob: Blob, bytes: number, usedAt: number, snapshot?: boolean}} Entry `snapshot`: of a round's auxiliary weights */

/** Why a write was not done. `code` is `storage_full` when the browser is out of room (C67). */
export class StorageError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.name = "StorageError";
    this.code = code;
  }
}

/** @param {DOMException | null | undefined} error */
function storageError(error) {
  if (error?.name === "QuotaExceededError") return new StorageError("storage_full", "This browser's storage is full.");
  return new StorageError("storage_failed", `This browser's storage failed: ${error?.message || error?.name || "the transaction was aborted"}.`);
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function answered(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(storageError(request.error));
  });
}

export class ArtifactStore {
  /** @type {Promise<IDBDatabase> | null} */ #opening = null;
  #factory;
  #budget;
  #now;

  /** @param {{indexedDB?: IDBFactory, budgetBytes?: number, now?: () => number}} [options] */
  constructor({ indexedDB = globalThis.indexedDB, budgetBytes = DEFAULT_BUDGET, now = Date.now } = {}) {
    this.#factory = indexedDB;
    this.#budget = budgetBytes;
    this.#now = now;
  }

  /** @param {string} sha256 @param {number} bytes @returns {Promise<Blob | null>} */
  async get(sha256, bytes) {
    /** @type {Blob | null} */
    let found = null;
    await this.#transaction("readwrite", async (store) => {
      const entry = /** @type {Entry | undefined} */ (await answered(store.get(sha256)));
      if (!entry) return;
      if (entry.blob.size !== bytes) return void store.delete(sha256);
      found = entry.blob;
      store.put({ ...entry, usedAt: this.#now() });
    });
    return found;
  }

  /**
   * Keep a verified Blob. When the browser is out of room the least recently used half goes first; rejects if that was not enough.
   * @param {string} sha256 @param {Blob} blob
   * @param {{keptSnapshots?: number}} [options] the Blob is a snapshot, and only so many, used last, are kept
   */
  async put(sha256, blob, { keptSnapshots } = {}) {
    const snapshot = keptSnapshots !== undefined;
    await this.trim(this.#budget - blob.size);
    const write = () =>
      this.#transaction("readwrite", async (store) => {
        store.put({ sha256, blob, bytes: blob.size, usedAt: this.#now(), snapshot });
        if (snapshot) await forgetSnapshots(store, keptSnapshots);
      });
    try {
      await write();
    } catch (error) {
      if (!(error instanceof StorageError) || error.code !== "storage_full") throw error;
      await this.trim((await this.size()) / 2);
      await write();
    }
  }

  /** @param {string} sha256 */
  async delete(sha256) {
    await this.#transaction("readwrite", async (store) => void store.delete(sha256));
  }

  /** Bytes kept now. */
  async size() {
    return (await this.inventory()).bytes;
  }

  /** What is kept now. */
  async inventory() {
    const kept = { files: 0, bytes: 0 };
    await this.#transaction("readonly", async (store) => {
      await walk(store.index(BY_USE).openCursor(), (entry) => {
        kept.files += 1;
        kept.bytes += entry.bytes;
      });
    });
    return kept;
  }

  /** Throw away what was used longest ago until at most `budgetBytes` are kept. @param {number} budgetBytes */
  async trim(budgetBytes) {
    let excess = (await this.size()) - Math.max(0, budgetBytes);
    if (excess <= 0) return;
    await this.#transaction("readwrite", async (store) => {
      await walk(store.index(BY_USE).openCursor(), (entry, cursor) => {
        if (excess <= 0) return;
        excess -= entry.bytes;
        cursor.delete();
      });
    });
  }

  /** @returns {Promise<IDBDatabase>} */
  #open() {
    this.#opening ??= this.#openOnce().catch((error) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #openOnce() {
    if (!this.#factory) throw new StorageError("storage_missing", "This browser has no storage for sites.");
    const request = this.#factory.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(STORE, { keyPath: "sha256" }).createIndex(BY_USE, BY_USE);
    };
    const database = await answered(/** @type {IDBRequest<IDBDatabase>} */ (request));
    const forget = () => {
      database.close();
      this.#opening = null;
    };
    database.onversionchange = forget;
    database.onclose = forget;
    return database;
  }

  /**
   * Resolves when the transaction is complete. A full disk raises only its `abort`, so that is what is listened to.
   * @param {IDBTransactionMode} mode
   * @param {(store: IDBObjectStore) => Promise<void>} work
   */
  async #transaction(mode, work) {
    const transaction = (await this.#open()).transaction(STORE, mode);
    const ended = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(undefined);
      transaction.onabort = () => reject(storageError(transaction.error));
    });
    const worked = work(transaction.objectStore(STORE)).catch((error) => {
      abort(transaction);
      throw error;
    });
    await Promise.all([ended, worked]);
  }
}

/** @param {IDBObjectStore} store @param {number} kept */
async function forgetSnapshots(store, kept) {
  /** @type {string[]} */
  const oldestFirst = [];
  await walk(store.index(BY_USE).openCursor(), ({ sha256, snapshot }) => {
    if (snapshot) oldestFirst.push(sha256);
  });
  for (const sha256 of oldestFirst.slice(0, -kept)) store.delete(sha256);
}

/** @param {IDBTransaction} transaction */
function abort(transaction) {
  try {
    transaction.abort();
  } catch {
    // It has ended by itself; its own reason is the one reported.
  }
}

/**
 * @param {IDBRequest<IDBCursorWithValue | null>} request
 * @param {(entry: Entry, cursor: IDBCursorWithValue) => void} visit
 * @returns {Promise<void>}
 */
function walk(request, visit) {
  return new Promise((resolve, reject) => {
    request.onerror = () => reject(storageError(request.error));
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) return resolve();
      visit(cursor.value, cursor);
      cursor.continue();
    };
  });
}
