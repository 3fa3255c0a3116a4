import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mock, test } from "node:test";

import { DebugLog } from "../../static/weei/api/debug-log.js";
import { eventOf, logFile } from "../../static/weei/api/log-file.js";
import { ServerEvents } from "../../static/weei/api/server-events.js";

const golden = JSON.parse(readFileSync(new URL("../golden/debug_log.json", import.meta.url), "utf8"));
const AT = "2027-03-04T05:06:07.000Z";
const START = Date.parse(AT);
const EVIL = "<img src=x onerror=alert(1)>";

/** As tabs see it: one for the profile. `room` is the number of characters that fit. */
class FakeStorage {
  /** @type {Map<string, string>} */ items = new Map();
  room = Infinity;

  get length() {
    return this.items.size;
  }

  /** @param {number} index */
  key(index) {
    return [...this.items.keys()][index] ?? null;
  }

  /** @param {string} key */
  getItem(key) {
    return this.items.get(key) ?? null;
  }

  /** @param {string} key @param {string} value */
  setItem(key, value) {
    const others = [...this.items].filter(([name]) => name !== key).reduce((sum, [name, text]) => sum + name.length + text.length, 0);
    if (others + key.length + value.length > this.room) throw new DOMException("full", "QuotaExceededError");
    this.items.set(key, value);
  }

  /** @param {string} key */
  removeItem(key) {
    this.items.delete(key);
  }
}

/** A log whose clock goes one millisecond further with every event. @param {FakeStorage | undefined} storage @param {number} [from] */
function tab(storage, from = START) {
  let now = from;
  return new DebugLog({ storage, wall: () => now++ });
}

/** @param {DebugLog} log @param {string} [name] */
const numbers = (log, name = "n") => log.events().filter(({ event }) => event === name).map(({ details }) => details?.n);
const upTo = (/** @type {number} */ count, from = 0) => Array.from({ length: count }, (_, index) => from + index);

for (const { name, events, baseline } of golden.logs) {
  test(`figures: ${name}`, () => {
    assert.deepEqual(logFile(events, AT), { schemaVersion: 2, exportedAt: AT, baseline, events });
  });
}

for (const { name, given, kept } of golden.details) {
  test(`details: ${name}`, () => {
    assert.deepEqual(eventOf(AT, "x", given), { at: AT, event: "x", ...(kept === null ? {} : { details: kept }) });
  });
}

test("what JSON cannot hold is left out of an event", () => {
  assert.deepEqual(eventOf(AT, "x", { a: undefined, b: NaN, c: [Infinity] }).details, { b: null, c: [null] });
  assert.equal(eventOf(AT, "x".repeat(100), {}).event.length, 61);
});

test("events outlive their page, and are deleted when asked", () => {
  const storage = new FakeStorage();
  storage.setItem("weei.peer", "the peer");
  tab(storage).record("connection.made", { job: EVIL });
  const reloaded = tab(storage);
  assert.deepEqual(reloaded.events(), [{ at: AT, event: "connection.made", details: { job: EVIL } }]);
  reloaded.clear();
  assert.deepEqual(tab(storage).events(), []);
  assert.equal(storage.getItem("weei.peer"), "the peer");
});

test("only the last thousand are kept, over tabs and reloads, and little more is stored", () => {
  const storage = new FakeStorage();
  const first = tab(storage);
  for (const n of upTo(700)) first.record("n", { n });
  const second = tab(storage, START + 700);
  for (const n of upTo(700, 700)) second.record("n", { n });
  assert.deepEqual(numbers(first), upTo(1000, 400));
  assert.ok(storage.length <= 1050, `${storage.length} keys`);
  for (const n of upTo(60, 1400)) tab(storage, START + n).record("n", { n });
  assert.deepEqual(numbers(first), upTo(1000, 460));
  assert.ok(storage.length <= 1050, `${storage.length} keys after many short visits`);
});

test("two tabs lose nothing to one another, whichever read before the other wrote", () => {
  const storage = new FakeStorage();
  const [one, other] = [tab(storage), tab(storage)];
  for (const n of upTo(200)) {
    one.events();
    other.record("other", { n });
    one.record("one", { n });
  }
  assert.deepEqual([numbers(one, "one"), numbers(one, "other")], [upTo(200), upTo(200)]);
  assert.deepEqual(other.events(), one.events());
});

test("events of one millisecond keep the order in which their tab told them", () => {
  const log = new DebugLog({ storage: new FakeStorage(), wall: () => START });
  for (const n of upTo(20)) log.record("n", { n });
  assert.deepEqual(numbers(log), upTo(20));
});

test("damaged entries are passed over and removed", () => {
  const storage = new FakeStorage();
  const log = tab(storage, START + 1);
  log.record("n", { n: 0 });
  const bad = ["{", "null", "[]", "7", `{"at":"${AT}"}`, `{"at":"soon","event":"x"}`, `{"at":"2027-13-04T05:06:07.000Z","event":"x"}`];
  for (const [index, text] of [...bad, `{"at":"${AT}","event":"x","details":[]}`].entries()) storage.setItem(`weei.log:${AT}:t:${index}`, text);
  storage.setItem("weei.log-seen", "[");
  assert.deepEqual(numbers(log), [0]);
  assert.equal(log.events().length, 1);
  assert.deepEqual([...storage.items.keys()].filter((key) => key.startsWith("weei.log:")).length, 1);
  assert.deepEqual(log.seen("job"), []);
});

test("a full storage gives up the older half; what still does not fit is kept for this page", () => {
  const storage = new FakeStorage();
  const log = tab(storage);
  for (const n of upTo(800)) log.record("n", { n });
  storage.room = [...storage.items].reduce((sum, [key, text]) => sum + key.length + text.length, 0);
  log.record("n", { n: 800 });
  assert.deepEqual(numbers(log), upTo(501, 300));
  storage.room = 0;
  log.record("n", { n: 801 });
  assert.deepEqual(numbers(log), upTo(501, 301));
  assert.deepEqual(numbers(tab(storage)), upTo(500, 301), "the newest one lives in its page");
});

test("without a storage the last thousand are kept for this page", () => {
  const forbidden = /** @type {any} */ (
    new Proxy(
      {},
      {
        get() {
          throw new DOMException("forbidden", "SecurityError");
        },
      },
    )
  );
  for (const log of [tab(undefined), tab(forbidden)]) {
    for (const n of upTo(1100)) log.record("n", { n });
    assert.deepEqual(numbers(log), upTo(1000, 100));
    log.takeOver("job", [row(7)]);
    assert.deepEqual(log.seen("job"), [7]);
    log.clear();
    assert.deepEqual(log.events(), []);
  }
});

test("the export is a named JSON file with the figures and the events", async () => {
  const log = tab(new FakeStorage());
  log.record("phase.finished", { phase: "training", ms: 12.5, round: 1 });
  log.record("assignment.received", { chunkId: EVIL });
  const file = log.export();
  assert.deepEqual([file.name, file.type], ["weei-debug-log-2027-03-04T05-06-07.json", "application/json"]);
  const { schemaVersion, exportedAt, baseline, events } = JSON.parse(await file.text());
  assert.equal(schemaVersion, 2);
  assert.equal(exportedAt, "2027-03-04T05:06:07.002Z");
  assert.deepEqual(baseline.phases, { training: { count: 1, minMs: 12.5, avgMs: 12.5, p50Ms: 12.5, maxMs: 12.5 } });
  assert.deepEqual(baseline.idle, { samples: 0, totalMs: 0, avgMs: 0 });
  assert.deepEqual(events, log.events());
  assert.equal(log.events()[1]?.details?.chunkId, EVIL);
});

/** An event as the server gives it. @param {number} id @param {object} [change] */
const row = (id, change = {}) => ({ id, at: new Date(START + id).toISOString(), event: "n", details: { n: id }, ...change });

test("the server's events stand among this browser's, once, whichever tabs take them over", () => {
  const storage = new FakeStorage();
  const [one, other] = [tab(storage, START + 2), tab(storage, START + 4)];
  one.record("here");
  one.takeOver("job", [row(1), row(3)]);
  // A tab that read the list of known ones before the other wrote it.
  other.takeOver("job", [row(1), row(3), row(5, { details: undefined })]);
  assert.deepEqual(
    one.events().map(({ event, details }) => [event, details]),
    [
      ["n", { jobId: "job", from: "server", n: 1 }],
      ["here", undefined],
      ["n", { jobId: "job", from: "server", n: 3 }],
      ["n", { jobId: "job", from: "server" }],
    ],
  );
  storage.removeItem("weei.log-seen");
  other.takeOver("job", [row(1), row(3)]);
  assert.equal(one.events().length, 4);
});

test("deleted events of the server do not come back, and one that comes to sight late does come", () => {
  const log = tab(new FakeStorage());
  log.takeOver("job", upTo(30).filter((id) => id !== 25).map((id) => row(id)));
  log.clear();
  assert.deepEqual(log.seen("job"), upTo(21, 9).filter((id) => id !== 25));
  log.takeOver("job", upTo(21, 9).map((id) => row(id)));
  assert.deepEqual(numbers(log), [25]);
});

test("what is no event in the server's answer is passed over", () => {
  const log = tab(new FakeStorage());
  log.takeOver("job", [row(1, { at: "x" }), row(2, { event: 7 }), row(3, { details: [] }), { ...row(4), id: "4" }, null, row(5)]);
  assert.deepEqual(numbers(log), [5]);
});

test("a job's events are read from where they were known, at most every two seconds", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const log = tab(new FakeStorage());
    /** @type {string[]} */
    const read = [];
    /** @type {any[][]} */
    const answers = [[row(8)], [row(8), row(9)]];
    const json = async (/** @type {string} */ _, /** @type {string} */ path) => (read.push(path), answers.shift() ?? Promise.reject(new Error("gone")));
    const events = new ServerEvents({ log, http: /** @type {any} */ ({ json }) });
    events.hint("job", ["status", "round"]);
    assert.deepEqual(read, []);
    events.hint("job", ["everything"]);
    await new Promise(setImmediate);
    upTo(5).forEach(() => events.hint("job", ["events"]));
    assert.deepEqual(read, ["/api/v1/jobs/job/log"]);
    mock.timers.tick(2000);
    await new Promise(setImmediate);
    assert.deepEqual(read.at(-1), "/api/v1/jobs/job/log?after=8");
    mock.timers.tick(2000);
    events.hint("job", ["events"]);
    await new Promise(setImmediate);
    assert.equal(read.length, 3);
    assert.deepEqual(numbers(log), [8, 9]);
  } finally {
    mock.timers.reset();
  }
});
