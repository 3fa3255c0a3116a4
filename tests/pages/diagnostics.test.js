// The Execution diagnostics card without a browser: texts, comparison, order. The golden file holds it to the server's words.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { rowOf } from "../../static/pages/diagnostics/cells.js";
import { compare } from "../../static/pages/diagnostics/comparing.js";
import { matches, ordered, pressed } from "../../static/pages/diagnostics/order.js";
import { aged, isLive, viewOf } from "../../static/pages/diagnostics/view.js";

const golden = JSON.parse(readFileSync(new URL("../golden/card.json", import.meta.url), "utf8"));

/** @param {any} of a person of the golden file, as weei.js gives it out */
const entryOf = ({ snapshot, ageMs, connected }) => snapshot && { ...snapshot, ageMs, connected, stale: !connected || ageMs > 10_000 };

/** @param {any[]} people */
function stateOf(people) {
  const participants = Object.fromEntries(people.map(({ peerId, label, state, error }) => [peerId, { label, state, error }]));
  const entries = people.filter(({ snapshot }) => snapshot).map((of) => [of.peerId, entryOf(of)]);
  const job = { info: { workSource: { unit: { label: "Episodes" } } }, participants };
  return /** @type {any} */ ({ job, diagnostics: Object.fromEntries(entries) });
}

test("rows have the texts of the golden file", () => {
  const { rows } = viewOf(stateOf(golden.people), 0);
  assert.equal(rows.length, golden.people.length);
  rows.forEach((row, at) => {
    assert.deepEqual({ about: golden.people[at].about, ...row.cells }, { about: golden.people[at].about, ...golden.people[at].cells });
    assert.deepEqual(row.tones, golden.people[at].tones);
  });
});

for (const { about, of, sentence, tone, differing } of golden.comparisons) {
  test(`compares ${about}`, () => {
    const found = compare(new Map(of.map((/** @type {[string, Record<string, string>]} */ [peer, facts]) => [peer, new Map(Object.entries(facts))])));
    assert.deepEqual({ ...found, differing: Object.fromEntries(found.differing) }, { sentence, tone, differing });
  });
}

test("says in one line each who differs, and leaves out who does not take part", () => {
  const [one, other] = golden.people;
  const view = viewOf(stateOf([one, other, { ...one, peerId: "x", state: "declined" }]), 0);
  assert.equal(view.rows.length, 2);
  assert.deepEqual(view.lines, [`Chrome 126 on Windows (7d8a3f0a): ${other.cells.differs}`]);
});

test("C70: ages grow between two states, and 10,001 ms is stale", () => {
  const state = stateOf([golden.people[0]]);
  assert.equal(isLive(state, 0), true);
  assert.equal(isLive(state, 1), false);
  assert.equal(viewOf(state, 1).rows[0]?.cells["fresh"], "Stale, 10 s old");
  assert.equal(isLive(stateOf([golden.people[2]]), 0), false);
});

test("what the server said grows old, too, and silence stays silence", () => {
  const view = { sentence: "", tone: "", lines: [], rows: viewOf(stateOf(golden.people), 0).rows };
  const fresh = (/** @type {number} */ ms) => aged(view, ms).rows.map((row) => row.cells["fresh"]);
  assert.deepEqual(fresh(5000), ["Stale, 15 s old", "Stale, 15 s old", "Disconnected, 1 min 6 s old", "No report yet"]);
});

const row = (/** @type {string} */ name, /** @type {Partial<import("../../static/pages/diagnostics/cells.js").Row>} */ more = {}) => ({
  peer: name, cells: { name, state: "Training", system: "", id: name, differs: "" }, tones: {}, speed: null, age: null, ...more,
});
const names = (/** @type {Array<{peer: string}>} */ rows) => rows.map(({ peer }) => peer);

test("names are sorted as people count, figures with the missing ones last whichever way", () => {
  const rows = [row("b10"), row("b2", { speed: 5 }), row("a", { speed: 70 })];
  assert.deepEqual(names(ordered(rows, { key: "", descending: false })), ["b10", "b2", "a"]);
  assert.deepEqual(names(ordered(rows, { key: "name", descending: false })), ["a", "b2", "b10"]);
  assert.deepEqual(names(ordered(rows, { key: "speed", descending: true })), ["a", "b2", "b10"]);
  assert.deepEqual(names(ordered(rows, { key: "speed", descending: false })), ["b2", "a", "b10"]);
});

test("a second press turns the order round", () => {
  const once = pressed({ key: "", descending: false }, "speed");
  assert.deepEqual([once, pressed(once, "speed"), pressed(once, "name")], [
    { key: "speed", descending: true },
    { key: "speed", descending: false },
    { key: "name", descending: false },
  ]);
});

test("filters by name, state and difference together", () => {
  const one = row("Firefox 153", { cells: { name: "Firefox 153", system: "", id: "5f2c", state: "Training", differs: "batch size" } });
  const filter = { find: " FIRE ", state: "Training", differing: true };
  assert.equal(matches(one, filter), true);
  assert.equal(matches(one, { ...filter, find: "5f2" }), true);
  assert.equal(matches(one, { ...filter, find: "chrome" }), false);
  assert.equal(matches(one, { ...filter, state: "Waiting" }), false);
  assert.equal(matches({ ...one, cells: { ...one.cells, differs: "" } }, filter), false);
});

test("an entry alone makes a row", () => {
  const [one] = golden.people;
  assert.equal(rowOf(one, entryOf(one), "", "examples").cells["size"], "125 examples, 7.9 KiB");
});
