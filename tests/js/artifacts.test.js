import assert from "node:assert/strict";
import { test } from "node:test";

import { IDBFactory } from "fake-indexeddb";

import { ArtifactStore } from "../../static/weei/store/artifacts.js";
import { JobArtifacts } from "../../static/weei/training/artifacts.js";
import { snapshotsWorthKeeping } from "../../static/weei/training/slots.js";
import { TransferLog } from "../../static/weei/training/transfers.js";
import { Http } from "../../static/weei/net/http.js";
import { sha256 } from "../../static/weei/hash.js";

const silent = { began: () => () => {} };
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

test("of snapshots only those used last are kept, and no file goes for them", async () => {
  let now = 1;
  const store = new ArtifactStore({ indexedDB: new IDBFactory(), now: () => now++ });
  await store.put("file", blobOf("ffff"));
  for (const name of ["s1", "s2"]) await store.put(name, blobOf(name), { keptSnapshots: 2 });
  await store.get("s1", 2);
  await store.put("s3", blobOf("s3"), { keptSnapshots: 2 });
  assert.equal(await store.get("s2", 2), null);
  assert.ok(await store.get("s1", 2));
  assert.ok(await store.get("s3", 2));
  await store.put("s4", blobOf("s4"), { keptSnapshots: 1 });
  assert.deepEqual([await store.get("s1", 2), await store.get("s3", 2)], [null, null]);
  assert.ok(await store.get("file", 4));
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
  return { fetched, transfers, artifacts: new JobArtifacts({ http, store, transfers, events: silent, peerId: () => "me" }) };
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

/** What each hash is served as, and in which order it was asked for. @param {Blob[]} served @param {ArtifactStore} store */
async function slotArtifacts(served, store) {
  const byHash = new Map(await Promise.all(served.map(async (blob) => /** @type {const} */ ([await sha256(blob), blob]))));
  /** @type {string[]} */
  const fetched = [];
  const fetch = async (/** @type {any} */ url) => {
    const hash = /** @type {string} */ (String(url).split("/").at(-1));
    fetched.push(hash);
    return new Response(byHash.get(hash));
  };
  const http = new Http({ base: "http://server.test", headers: () => ({}), fetch });
  const transfers = new TransferLog({ now: () => 0, changed: () => {} });
  const artifacts = new JobArtifacts({ http, store, transfers, events: silent, peerId: () => "me" });
  const refs = [...byHash].map(([hash, { size }]) => ({ sha256: hash, bytes: size }));
  return { artifacts, fetched, refs: (/** @type {string[]} */ ...ids) => ids.map((id, k) => ({ id, ...refs[k], sha256: String(refs[k]?.sha256), bytes: Number(refs[k]?.bytes) })) };
}

const without = () => new ArtifactStore({ indexedDB: /** @type {any} */ (null) });
const { signal } = new AbortController();
/** @param {import("../../static/weei/types.js").AuxiliarySlot[]} auxiliaryWeights */
const declares = (...auxiliaryWeights) => ({ id: "toy", version: "1", name: "Toy", auxiliaryWeights });
const snapshot = (/** @type {string} */ id, roundsAgo = 2) => ({ id, bytes: 4, source: /** @type {const} */ ({ kind: "checkpoint", roundsAgo }) });

test("auxiliary weights come in their order, once, also where nothing can be stored", async () => {
  const { artifacts, fetched, refs } = await slotArtifacts([blobOf("file"), blobOf("old1")], without());
  const slots = refs("reward", "old");
  const [reward, old] = /** @type {any} */ (slots);
  const info = declares({ id: "reward", bytes: 4, sha256: reward.sha256.toUpperCase() }, snapshot("old"));
  assert.deepEqual(await texts(await artifacts.auxiliary("job", [reward], info, signal)), ["reward: file"]);
  assert.deepEqual(await texts(await artifacts.auxiliary("job", slots, info, signal)), ["reward: file", "old: old1"]);
  assert.deepEqual(await texts(await artifacts.auxiliary("job", slots, info, signal)), ["reward: file", "old: old1"]);
  assert.deepEqual(fetched, [reward.sha256, old.sha256]);
});

test("what is held is the stored Blob, not the one that was received", async () => {
  const stored = new ArtifactStore({ indexedDB: new IDBFactory() });
  const { artifacts, refs } = await slotArtifacts([blobOf("file")], stored);
  const [reward] = /** @type {any} */ (refs("reward"));
  /** @type {(Blob | null)[]} */
  const given = [];
  const get = stored.get.bind(stored);
  stored.get = async (...wanted) => {
    const blob = await get(...wanted);
    given.push(blob);
    return blob;
  };
  const info = declares({ id: "reward", bytes: 4, sha256: reward.sha256 });
  const [slot] = await artifacts.auxiliary("job", [reward], info, signal);
  assert.equal(slot?.bytes, given.at(-1));
  assert.equal(await slot?.bytes.text(), "file");
});

/** @param {{id: string, bytes: Blob}[]} slots */
const texts = (slots) => Promise.all(slots.map(async ({ id, bytes }) => `${id}: ${await bytes.text()}`));

test("a snapshot that is also the round's weights is fetched once; one that no slot names any more is let go", async () => {
  const { artifacts, fetched, refs } = await slotArtifacts([blobOf("now "), blobOf("next")], without());
  const [now, next] = /** @type {any} */ (refs("old", "old"));
  const info = declares(snapshot("old", 0));
  await artifacts.auxiliary("job", [now], info, signal);
  await artifacts.fetch("job", now, { signal, keep: false });
  assert.deepEqual(fetched, [now.sha256]);
  await artifacts.auxiliary("job", [next], info, signal);
  await artifacts.fetch("job", now, { signal, keep: false });
  assert.deepEqual(fetched, [now.sha256, next.sha256, now.sha256]);
});

test("snapshots are kept over a reload as long as a rule may want them again", async () => {
  const indexedDB = new IDBFactory();
  let now = 1;
  const store = () => new ArtifactStore({ indexedDB, now: () => now++ });
  const first = await slotArtifacts([blobOf("one "), blobOf("two ")], store());
  const [one, two] = /** @type {any} */ (first.refs("old", "old"));
  const info = declares(snapshot("old"));
  await first.artifacts.auxiliary("job", [one], info, signal);
  await first.artifacts.auxiliary("job", [two], info, signal);
  const again = await slotArtifacts([blobOf("one "), blobOf("two ")], store());
  await again.artifacts.auxiliary("job", [two], info, signal);
  assert.deepEqual(again.fetched, []);
  await again.artifacts.auxiliary("job", [one], info, signal);
  assert.deepEqual(again.fetched, [one.sha256]);
});

test("how many snapshots are worth keeping follows from the model's rules", () => {
  const initial = { id: "start", bytes: 4, source: /** @type {const} */ ({ kind: "initial" }) };
  assert.equal(snapshotsWorthKeeping([initial]), 1);
  assert.equal(snapshotsWorthKeeping([snapshot("old", 5)]), 1);
  assert.equal(snapshotsWorthKeeping([initial, snapshot("a", 1), snapshot("b", 4)]), 9);
  assert.equal(snapshotsWorthKeeping([snapshot("a", 0), snapshot("b", 1000)]), 16);
});

test("nothing is fetched that the model does not declare", async () => {
  const { artifacts, fetched, refs } = await slotArtifacts([blobOf("file")], without());
  const [file] = /** @type {any} */ (refs("reward"));
  const refused = (/** @type {any} */ ...slots) => artifacts.auxiliary("job", [file], declares(...slots), signal);
  await assert.rejects(refused(), { message: "The server offers auxiliary weights reward, which the model does not declare." });
  await assert.rejects(refused({ id: "reward", bytes: 8, sha256: file.sha256 }), /of 4 bytes with SHA-256 .*; the model declares 8 bytes with SHA-256/);
  await assert.rejects(refused({ id: "reward", bytes: 4, sha256: "00" }), /the model declares 4 bytes with SHA-256 00/);
  await assert.rejects(refused({ ...snapshot("reward"), bytes: 8 }), /the model declares 8 bytes\./);
  await assert.rejects(artifacts.auxiliary("job", [file], { id: "toy", version: "1", name: "Toy" }, signal), /does not declare/);
  assert.deepEqual(fetched, []);
});
