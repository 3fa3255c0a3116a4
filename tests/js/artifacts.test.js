import assert from "node:assert/strict";
import { test } from "node:test";

import { IDBFactory } from "fake-indexeddb";

import { ArtifactStore } from "../../static/weei/store/artifacts.js";
import { JobArtifacts } from "../../static/weei/training/artifacts.js";
import { TransferLog } from "../../static/weei/training/transfers.js";
import { Http } from "../../static/weei/net/http.js";
import { sha256 } from "../../static/weei/hash.js";

const blobOf = (/** @type {string} */ text) => new Blob([text]);

test("keeps Blobs by hash over a reload", async () => {
  const indexedDB = new IDBFactory();
  await new ArtifactStore({ indexedDB }).put("a1", blobOf("hello"));
  const again = new ArtifactStore({ indexedDB });
  assert.equal(await (await again.get("a1", 5))?.text(), "hello");
  assert.equal(await again.get("b2", 5), null);
  assert.equal(await again.size(), 5);
});

test("an entry of another size is thrown away", async () => {
  const store = new ArtifactStore({ indexedDB: new IDBFactory() });
  await store.put("a1", blobOf("hell"));
  assert.equal(await store.get("a1", 5), null);
  assert.equal(await store.size(), 0);
});

test("what was used longest ago goes first", async () => {
  let now = 1;
  const store = new ArtifactStore({ indexedDB: new IDBFactory(), budgetBytes: 10, now: () => now++ });
  await store.put("one", blobOf("1111"));
  await store.put("two", blobOf("2222"));
  await store.get("one", 4);
  await store.put("three", blobOf("3333"));
  assert.equal(await store.get("two", 4), null);
  assert.ok(await store.get("one", 4));
  assert.ok(await store.get("three", 4));
});

/** An IndexedDB whose writes end in `abort` with a quota error and no `error` event (C67). @param {IDBFactory} real @param {() => boolean} full */
function fullDisk(real, full) {
  return /** @type {IDBFactory} */ (
    /** @type {unknown} */ ({
      open(/** @type {string} */ name, /** @type {number} */ version) {
        const request = real.open(name, version);
        request.addEventListener("success", () => {
          const database = request.result;
          const begin = database.transaction.bind(database);
          database.transaction = (/** @type {any} */ ...args) => {
            const transaction = begin(.../** @type {[string, IDBTransactionMode]} */ (args));
            const objectStore = transaction.objectStore.bind(transaction);
            transaction.objectStore = (store) => {
              const opened = objectStore(store);
              opened.put = () => {
                if (!full()) throw new Error("this fake is always full");
                queueMicrotask(() => {
                  Object.defineProperty(transaction, "error", { value: new DOMException("full", "QuotaExceededError") });
                  transaction.abort();
                });
                return /** @type {IDBRequest<IDBValidKey>} */ ({});
              };
              return opened;
            };
            return transaction;
          };
        });
        return request;
      },
    })
  );
}

test("a full disk rejects with a sentence, and leaves no half entry (C67)", async () => {
  const real = new IDBFactory();
  const store = new ArtifactStore({ indexedDB: fullDisk(real, () => true) });
  await assert.rejects(store.put("a1", blobOf("hello")), { code: "storage_full", message: "This browser's storage is full." });
  assert.equal(await new ArtifactStore({ indexedDB: real }).get("a1", 5), null);
});

test("a browser without IndexedDB says so", async () => {
  const store = new ArtifactStore({ indexedDB: /** @type {any} */ (null) });
  await assert.rejects(store.get("a1", 5), { code: "storage_missing" });
});

/** @param {import("../../static/weei/training/artifacts.js").Store} store @param {Blob} served */
function jobArtifacts(store, served) {
  const fetched = { count: 0 };
  const transfers = new TransferLog({ now: () => 0, changed: () => {} });
  const fetch = async () => {
    fetched.count += 1;
    return new Response(served);
  };
  const http = new Http({ base: "http://server.test", headers: () => ({}), fetch });
  return { fetched, transfers, artifacts: new JobArtifacts({ http, store, transfers, peerId: () => "me" }) };
}

test("a full disk costs a download, never the work (C67)", async () => {
  const blob = blobOf("chunk");
  const wanted = { sha256: await sha256(blob), bytes: 5 };
  const { artifacts, transfers, fetched } = jobArtifacts(new ArtifactStore({ indexedDB: fullDisk(new IDBFactory(), () => true) }), blob);
  const { signal } = new AbortController();
  assert.equal(await (await artifacts.fetch("job", wanted, { signal })).text(), "chunk");
  assert.match(String(transfers.errors.storage), /full/);
  await artifacts.fetch("job", wanted, { signal });
  assert.equal(fetched.count, 2);
});

test("what is stored is verified once per page, and fetched again when it was changed on disk", async () => {
  const blob = blobOf("chunk");
  const wanted = { sha256: await sha256(blob), bytes: 5 };
  const store = new ArtifactStore({ indexedDB: new IDBFactory() });
  await store.put(wanted.sha256, blobOf("chunX"));
  const { artifacts, fetched } = jobArtifacts(store, blob);
  const { signal } = new AbortController();
  assert.equal(await (await artifacts.fetch("job", wanted, { signal })).text(), "chunk");
  assert.equal(await (await artifacts.fetch("job", wanted, { signal })).text(), "chunk");
  assert.equal(fetched.count, 1);
});
