// What the new-job page reads of a manifest, and the parts of watching and playing that need no browser.
import assert from "node:assert/strict";
import test from "node:test";
import { factsOf, makesData, readManifest } from "../../static/pages/package.js";
import { columnText, discs, endText, playerToMove, thoughtText, undone } from "../../static/pages/play/board.js";
import { checkedSeed, episodeText } from "../../static/pages/play/cartpole.js";

/** @type {import("../../static/pages/play/board.js").Position} */
const EVEN = { move: 3, policy: [0, 0.1, 0.2, 0.4, 0.2, 0.1, 0], value: 0, legal: [0, 1, 2, 3, 4, 5, 6], winner: "none", line: [] };

test("a chunk list is counted", () => {
  const facts = factsOf([{ exampleCount: 4 }, { exampleCount: 9 }, { exampleCount: "x" }, null]);
  assert.deepEqual(facts, { chunks: 4, largest: 9, source: null, slots: [] });
  assert.equal(makesData(facts), false);
});

test("a package tells its chunks, its kind and the slots that files fill", () => {
  const source = { inputs: "none", unit: { id: "episode", label: "Episodes" } };
  const auxiliaryWeights = [{ id: "a", fileName: "a.bin", bytes: 8 }, { id: "old", source: { kind: "initial" } }, null, 3];
  const facts = factsOf({ workSource: source, auxiliaryWeights, inlineJson: { "dataset-manifest.json": [] } });
  assert.deepEqual(facts, { chunks: 0, largest: 0, source, slots: [auxiliaryWeights[0]] });
  assert.equal(makesData(facts), true);
  assert.equal(makesData(factsOf({ workSource: { ...source, inputs: "dataset" } })), false);
});

test("what is no manifest is nothing to say about", async () => {
  for (const text of ["", "{", "null", "3", '"x"', '{"inlineJson": 3, "auxiliaryWeights": {}}']) {
    const facts = await readManifest(new File([text], "manifest.json"));
    assert.deepEqual(facts, { chunks: 0, largest: 0, source: null, slots: [] }, text);
  }
  assert.equal((await readManifest(undefined)).chunks, 0);
});

test("discs lie on each other, by turns", () => {
  assert.deepEqual(discs("33"), [[], [], [], ["first", "second"], [], [], []]);
  assert.deepEqual([playerToMove(""), playerToMove("3")], ["first", "second"]);
});

test("undoing goes back to the person's turn, and not beyond the first", () => {
  assert.equal(undone("334", "first"), "33");
  assert.equal(undone("3342", "first"), "33");
  assert.equal(undone("33", "first"), "");
  assert.equal(undone("", "first"), "");
  assert.equal(undone("3", "second"), "3");
  assert.equal(undone("334", "second"), "3");
});

test("a column is told in words", () => {
  assert.equal(columnText([], 3, "first"), "Column 4, empty");
  assert.equal(columnText(["first"], 0, "first"), "Column 1, 1 disc, the top one yours");
  assert.equal(columnText(["first", "second"], 0, "first"), "Column 1, 2 discs, the top one the model’s");
  assert.equal(columnText(["first", "second", "first", "second", "first", "second"], 6, "first"), "Column 7, full");
});

test("the end is told from the person's side", () => {
  assert.equal(endText(EVEN, "first"), null);
  assert.match(endText({ ...EVEN, winner: "second" }, "second") ?? "", /you win/);
  assert.match(endText({ ...EVEN, winner: "second" }, "first") ?? "", /it wins/);
  assert.match(endText({ ...EVEN, winner: "draw" }, "first") ?? "", /a draw/);
});

test("the value is turned to the person, whoever moves", () => {
  assert.match(thoughtText({ ...EVEN, value: 0.5 }, true), /you are ahead: 0\.50.*column 4 \(40 %\)/);
  assert.match(thoughtText({ ...EVEN, value: 0.5 }, false), /it is ahead: -0\.50/);
  assert.match(thoughtText({ ...EVEN, value: 0.001 }, false), /it is even: 0\.00/);
  assert.match(thoughtText({ ...EVEN, move: null }, true), /it is even: 0\.00, where 1 is won and -1 lost for you\.$/);
});

test("seeds are checked before the model is asked", () => {
  assert.equal(checkedSeed(" 18446744073709551615 "), "18446744073709551615");
  for (const text of ["", "-1", "1.5", "007", "x", "18446744073709551616"]) assert.throws(() => checkedSeed(text), /^Error: Seed must be/, text);
});

test("an episode is told in words", () => {
  assert.equal(episodeText(30, "5", 500, 500), "Round 30, seed 5: it balanced for all 500 steps. Return 500.");
  assert.equal(episodeText(0, "5", 1, 1), "Round 0, seed 5: it balanced for 1 step. Return 1.");
});
