import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { divided, mergeRanges, sumOfReports, worksOf } from "../../static/weei/training/ranges.js";
import { assignment } from "./world.js";

const golden = (/** @type {string} */ name) => JSON.parse(readFileSync(new URL(`../golden/${name}.json`, import.meta.url), "utf8"));
const blobOf = (/** @type {string} */ hex) => new Blob([Buffer.from(hex, "hex")]);
const bytesOf = async (/** @type {Blob} */ blob) => Buffer.from(await blob.arrayBuffer());
const { signal } = new AbortController();
const info = { id: "toy", version: "1" };

/** @param {Float32Array<ArrayBuffer>} floats @param {number} uniqueExamples @returns {import("../../static/weei/training/runner.js").Trained} */
const range = (floats, uniqueExamples) => ({
  weights: new Blob([floats]),
  result: { weights: { pointer: 0, bytes: floats.byteLength }, metrics: {}, examplesProcessed: uniqueExamples, uniqueExamples },
  info,
});

for (const vector of golden("seeds").splits) {
  test(`divides ${vector.unitCount} units from ${vector.unitStart} in ${vector.split}, with the golden seeds`, async () => {
    const { assignmentSeed: seed, unitStart, unitCount, split, ranges } = vector;
    assert.deepEqual(await divided({ seed, unitStart, unitCount }, split), ranges);
  });
}

test("no range is empty", async () => {
  await assert.rejects(divided({ seed: "7", unitStart: 0, unitCount: 3 }, 4), /split must be from 1 to the 3 units of the assignment; found 4/);
  await assert.rejects(divided({ seed: "7", unitStart: 0, unitCount: 3 }, 0), /found 0/);
});

test("an assignment over records is one work; one of units is its ranges", async () => {
  const over = await worksOf(assignment());
  assert.deepEqual(over, [
    { settings: assignment().settings, round: 4, seed: "18446744073709551615", format: "bytes" },
  ]);
  const units = { data: null, seed: "5", experience: { seed: "5", unitStart: 32, unitCount: 32 }, split: 4 };
  const works = await worksOf(assignment(units));
  assert.deepEqual(works.map(({ experience }) => experience), golden("seeds").splits[1].ranges);
  assert.ok(works.every((work) => work.round === 4 && !("format" in work)));
});

for (const vector of golden("ranges")) {
  test(`merges to the golden bits: ${vector.name}`, async () => {
    const parts = vector.parts.map((/** @type {any} */ { weights, optimizerSteps, ...counts }) => ({
      weights: blobOf(weights),
      result: { weights: { pointer: 0, bytes: weights.length / 2 }, ...counts, ...(optimizerSteps === null ? {} : { optimizerSteps }) },
      info,
    }));
    const { weights, result } = await mergeRanges(blobOf(vector.start), parts, signal);
    const bytes = await bytesOf(weights);
    assert.equal(bytes.toString("hex"), vector.merged.weights);
    assert.equal(createHash("sha256").update(bytes).digest("hex"), vector.merged.sha256);
    const { metrics, uniqueExamples, examplesProcessed, optimizerSteps = null } = result;
    const counts = { metrics, uniqueExamples, examplesProcessed, optimizerSteps };
    assert.deepEqual({ ...vector.merged, ...counts }, vector.merged);
  });
}

test("weights over several blocks are merged like one", async () => {
  const count = 600_001;
  const parts = [3, 1, 5].map((weight, k) => range(Float32Array.from({ length: count }, (_, i) => Math.sin(i * (k + 1)) * 10 ** (i % 9)), weight));
  const merged = await mergeRanges(/** @type {any} */ (parts[0]).weights, parts, signal);
  const [a, b, c] = await Promise.all(parts.map(async ({ weights }) => new Float32Array(await weights.arrayBuffer())));
  const expected = Float32Array.from({ length: count }, (_, i) => (3 * Number(a?.[i]) + Number(b?.[i]) + 5 * Number(c?.[i])) / 9);
  assert.deepEqual(await bytesOf(merged.weights), Buffer.from(expected.buffer));
});

test("a merge that is aborted ends", async () => {
  const abort = new AbortController();
  const parts = [range(new Float32Array([1]), 1), range(new Float32Array([2]), 1)];
  const merging = mergeRanges(new Blob([new Float32Array([0])]), parts, abort.signal);
  abort.abort(new Error("left"));
  await assert.rejects(merging, { message: "left" });
});

test("progress is summed over the ranges; one that said nothing yet has its units before it", () => {
  const works = [4, 3].map((unitCount) => ({ settings: "{}", round: 1, experience: { seed: "1", unitStart: 0, unitCount } }));
  assert.deepEqual(sumOfReports(works, [undefined, { processedExamples: 1, totalExamples: 3 }]), { processedExamples: 1, totalExamples: 7 });
  /** @type {import("../../static/weei/types.js").TrainReport[]} */
  const reports = [
    { processedExamples: 3, totalExamples: 4, optimizerSteps: 2, metrics: { loss: 1, constructor: 2 } },
    { processedExamples: 1, totalExamples: 3, optimizerSteps: 1, metrics: { loss: 2 } },
  ];
  assert.deepEqual(sumOfReports(works, reports), { processedExamples: 4, totalExamples: 7, optimizerSteps: 3, metrics: { loss: 1.25, constructor: 2 } });
});
