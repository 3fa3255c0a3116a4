// The parts of the page scripts that need no browser.
import assert from "node:assert/strict";
import test from "node:test";
import { bytesText, countText, partText, secondsText, shown, speedText, unitsText } from "../../static/pages/format.js";
import { judge, lasting } from "../../static/pages/panels.js";
import { checkDevice } from "../../static/pages/requirements.js";

const fragment = (/** @type {number} */ marker, /** @type {string} */ text) => `<div hidden data-marker="${marker}"></div>${text}`;
const showing = (/** @type {number} */ marker, /** @type {string} */ text) => ({ marker, text: lasting(fragment(marker, text)) });

test("C77: an answer read before the one on the page is dropped", () => {
  assert.equal(judge(showing(4, "round 4"), fragment(3, "round 3")), "old");
  assert.equal(judge(showing(3, "round 3"), fragment(4, "round 4")), "swap");
});

test("C77: an answer that says the same is not swapped, whatever its CSRF token", () => {
  const form = (/** @type {string} */ token) => `<input type="hidden" name="csrfmiddlewaretoken" value="${token}">`;
  assert.equal(judge(showing(3, form("one")), fragment(4, form("two"))), "same");
});

test("C77: a page without a marker, such as the sign-in page, never lands in a panel", () => {
  assert.equal(judge(showing(3, "x"), "<!doctype html><title>Sign in</title>"), "foreign");
});

test("the first answer is swapped", () => {
  assert.equal(judge({ marker: 0, text: undefined }, fragment(1, "x")), "swap");
});

test("C74: missing figures are dashes, never 0, NaN or Infinity", () => {
  for (const value of [undefined, null, NaN, Infinity, "unknown"]) {
    assert.deepEqual([bytesText(value), countText(value), speedText(value), secondsText(value)], ["—", "—", "—", "—"]);
  }
  assert.equal(shown("unknown"), "—");
  assert.equal(shown(0), "0");
});

test("figures are written as the server writes them", () => {
  assert.deepEqual([bytesText(0), bytesText(1536), bytesText(268_435_456)], ["0 B", "1.5 KiB", "256 MiB"]);
  assert.deepEqual([speedText(5210.4), speedText(0.5)], ["5,210/s", "0.5/s"]);
  assert.deepEqual([secondsText(59), secondsText(90), secondsText(3725)], ["59 s", "1 min 30 s", "1 h 2 min"]);
});

test("parts are named with the model's own unit, the last one included", () => {
  const unit = { label: "Episodes" };
  assert.deepEqual([unitsText(unit), unitsText({ label: "MDP steps" }), unitsText(null)], ["episodes", "MDP steps", "examples"]);
  assert.equal(partText("units-384-1416", unit), "episodes 384–1,415");
  assert.deepEqual([partText("units-1-2", null), partText("chunk-001", unit), partText(undefined, unit)], ["units-1-2", "chunk-001", "—"]);
});

const able = { wasm: () => true, "wasm-simd128": () => true };

test("a device that has what the model needs has nothing missing", () => {
  assert.deepEqual(checkDevice({ requiredFeatures: ["wasm-simd128"], estimatedWorkingBytes: 2 ** 20 }, able, 8), { missing: [], doubts: [] });
});

test("a device without a needed feature is told so by name", () => {
  const { missing } = checkDevice({ requiredFeatures: ["wasm-simd128"] }, { ...able, "wasm-simd128": () => false }, 8);
  assert.equal(missing.length, 1);
  assert.match(missing[0] ?? "", /wasm-simd128/);
});

test("what cannot be told is a doubt, not a refusal", () => {
  const { missing, doubts } = checkDevice({ requiredFeatures: ["quantum"], estimatedWorkingBytes: 9 * 2 ** 30 }, able, 8);
  assert.deepEqual(missing, []);
  assert.equal(doubts.length, 2);
});

test("this engine is found to have SIMD, so the probe is a valid module", () => {
  const { missing } = checkDevice({ requiredFeatures: ["wasm-simd128"] }, undefined, undefined);
  assert.deepEqual(missing, []);
});
