// What the page scripts decide about questions, keys and time left; in browsers tests/browser/test_design.py sees them.
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = /** @type {any} */ ({ title: "Weei" });
const { questionOf } = await import("../../static/pages/dialogs.js");
const { leftText, Pace } = await import("../../static/pages/progress.js");
const { meaning } = await import("../../static/pages/shortcuts.js");

test("a question is told from what it means", () => {
  assert.deepEqual(questionOf("Remove Ada? Its work goes back."), ["Remove Ada?", "Its work goes back."]);
  assert.deepEqual(questionOf("No question"), ["No question", ""]);
});

test("time left follows the pace, and is unknown before there is one", () => {
  const pace = new Pace();
  assert.equal(pace.left(0, 0), null);
  assert.equal(pace.left(0.1, 1000), null);
  assert.equal(pace.left(0.25, 5000), 15);
  assert.equal(pace.left(0.5, 10_000), 10);
});

test("a bar that goes back, stands still or has no end says nothing", () => {
  const pace = new Pace();
  pace.left(0.5, 0);
  assert.equal(pace.left(0.5, 60_000), null);
  pace.left(0.8, 70_000);
  assert.equal(pace.left(0.1, 80_000), null);
  assert.equal(pace.left(null, 90_000), null);
  assert.equal(pace.left(1, 100_000), null);
});

test("only the last stretch counts", () => {
  const pace = new Pace();
  pace.left(0, 0);
  pace.left(0.5, 100_000);
  pace.left(0.51, 135_000);
  const left = pace.left(0.52, 170_000) ?? 0;
  assert.ok(left > 1000, String(left));
});

test("time left in words", () => {
  assert.equal(leftText(null), "");
  assert.equal(leftText(12), "about 12 s left");
  assert.equal(leftText(0.1), "about 1 s left");
  assert.equal(leftText(200), "about 3 min left");
});

test("keys mean something alone, or after the one before", () => {
  assert.ok(meaning("", "n").act);
  assert.equal(meaning("", "g").act, undefined);
  assert.ok(meaning("", "g").waits);
  assert.notEqual(meaning("g", "j").act, meaning("", "j").act);
  // After a key that leads nowhere, the next one counts for itself.
  assert.equal(meaning("g", "k").act, meaning("", "k").act);
  assert.equal(meaning("", "x").act, undefined);
  assert.ok(meaning("", " ").act);
});
