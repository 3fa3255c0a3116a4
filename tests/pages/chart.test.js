// What charts compute, and what their files hold.
import assert from "node:assert/strict";
import test from "node:test";
import { csvText, fileName } from "../../static/pages/chart_csv.js";
import { axisName, elapsed, isThinned, onePointText, refined, xOf, xText } from "../../static/pages/chart_data.js";
import { extremes, indexesIn, isolated, joined, nearest, panned, positive, reachedAt, smoothed, zoomed } from "../../static/pages/chart_math.js";

test("smoothing begins at the first value, not at 0, and leaves gaps as gaps", () => {
  assert.deepEqual(smoothed([4, 4, 4], 0.9).map((value) => Number(value?.toFixed(9))), [4, 4, 4]);
  assert.deepEqual(smoothed([1, null, 3], 0.5), [1, null, (0.25 + 1.5) / 0.75]);
  assert.deepEqual(smoothed([undefined, 2], 0.5), [undefined, 2]);
});

test("smoothing with weight 0 is what was measured", () => {
  assert.deepEqual(smoothed([1, 5, null, 2], 0), [1, 5, null, 2]);
});

test("a logarithmic scale makes gaps of 0 and less, never another value", () => {
  assert.deepEqual(positive([1, 0, -2, null, undefined, 0.5]), [1, null, null, null, undefined, 0.5]);
});

test("points without a neighbour are dots; one that this line never had is no gap", () => {
  assert.deepEqual(isolated([1, null, 2, null, 3, 4]), [0, 2]);
  assert.deepEqual(isolated([1, undefined, 2, null, null]), []);
  assert.deepEqual(isolated([null, 7, undefined]), [1]);
});

test("zooming keeps the centre where it is and never leaves the whole", () => {
  assert.deepEqual(zoomed([0, 100], 0.5, [0, 100]), [25, 75]);
  assert.deepEqual(zoomed([0, 100], 0.5, [0, 100], 20), [10, 60]);
  assert.deepEqual(zoomed([0, 50], 4, [0, 100]), [0, 100]);
  assert.deepEqual(zoomed([80, 100], 2, [0, 100]), [60, 100]);
  assert.deepEqual(zoomed([10, 10.005], 0.1, [0, 100], 10).map((end) => end.toFixed(6)), ["10.000000", "10.010000"]);
});

test("moving stops at the ends", () => {
  assert.deepEqual(panned([20, 40], 0.5, [0, 100]), [30, 50]);
  assert.deepEqual(panned([20, 40], -2, [0, 100]), [0, 20]);
  assert.deepEqual(panned([70, 90], 1, [0, 100]), [80, 100]);
});

test("the points in view are those inside of the range", () => {
  assert.deepEqual(indexesIn([0, 1, 2, 3], null), [0, 3]);
  assert.deepEqual(indexesIn([0, 1, 2, 3], [0.5, 2.5]), [1, 2]);
  assert.deepEqual(indexesIn([0, 10], [3, 4]), [0, -1]);
  assert.deepEqual(indexesIn([], null), [0, -1]);
});

test("a line without a point there answers with its nearest one", () => {
  assert.equal(nearest([1, undefined, undefined, null], 2), 3);
  assert.equal(nearest([1, undefined, undefined, undefined], 2), 0);
  assert.equal(nearest([undefined], 0), -1);
});

test("lines of different rounds stand over all rounds, and have points only where they were", () => {
  const { x, tables } = joined([{ x: [0, 2, 4], columns: [[1, null, 3]] }, { x: [1, 2], columns: [[7, 8], [5, 6]] }]);
  assert.deepEqual(x, [0, 1, 2, 4]);
  assert.deepEqual(tables, [[[1, undefined, null, 3]], [[undefined, 7, 8, undefined], [undefined, 5, 6, undefined]]]);
});

test("extremes are told by index, and of nothing there are none", () => {
  assert.deepEqual(extremes([null, 3, 1, 2], [0, 3]), { count: 3, first: 1, last: 3, lowest: 2, highest: 1 });
  assert.equal(extremes([null, undefined], [0, 1]), null);
  assert.equal(extremes([1], [0, -1]), null);
});

test("a goal is reached downwards or upwards, as the metric wants it", () => {
  assert.equal(reachedAt([null, 2, 1, 0.5], 1, "minimize"), 2);
  assert.equal(reachedAt([0.1, null, 0.9], 0.9, "maximize"), 2);
  assert.equal(reachedAt([0.1], 0.9, "maximize"), -1);
});

/** @param {number[]} rounds @param {Array<number | null>} values */
const data = (rounds, values) => ({
  rounds, check: "validation", unit: "examples", started: 1000, found: rounds.length,
  times: rounds.map((round) => 1000 + round * 2000), examples: rounds.map((round) => round * 50), participants: rounds.map(() => 2),
  series: [{ metric: "loss", label: "Loss", direction: "minimize", kind: /** @type {const} */ ("training"), values }],
});

test("points stand by round, by time since the start, or by examples", () => {
  const some = data([0, 1, 4], [null, 1, 2]);
  assert.deepEqual([xOf(some, "round"), xOf(some, "time"), xOf(some, "examples")], [[0, 1, 4], [0, 2, 8], [0, 50, 200]]);
  assert.deepEqual(elapsed({ ...some, started: 2000 }), [0, 1, 7]);
  assert.deepEqual(elapsed({ ...some, started: null }), [0, 2, 8]);
  assert.deepEqual([xText("time", 90), xText("round", 1234), axisName("examples", "episodes")], ["1 min 30 s", "1,234", "episodes trained"]);
});

test("finer points replace the coarse ones of their range and no others", () => {
  const whole = { ...data([0, 10, 20, 30], [9, 8, 7, 6]), found: 31 };
  const fine = refined(whole, data([9, 10, 11], [1, 2, 3]));
  assert.deepEqual(fine.rounds, [0, 9, 10, 11, 20, 30]);
  assert.deepEqual(fine.series[0]?.values, [9, 1, 2, 3, 7, 6]);
  assert.deepEqual([fine.times.length, fine.examples.length, fine.participants.length], [6, 6, 6]);
  assert.deepEqual(refined(whole, { ...data([9, 10], [1, 2]), series: [] }).series[0]?.values, [9, null, null, 7, 6]);
  assert.equal(refined(whole, data([], [])), whole);
  assert.deepEqual([isThinned(whole), isThinned(data([0], [1]))], [true, false]);
});

test("a CSV file quotes, keeps numbers as numbers, leaves missing values empty and defuses formulas", () => {
  assert.equal(csvText([["Round", "=HYPERLINK(1)", "a,\"b\""], [1, -2.5, null], [2, undefined, "+1"]]), "Round,'=HYPERLINK(1),\"a,\"\"b\"\"\"\r\n1,-2.5,\r\n2,,'+1\r\n");
  assert.equal(csvText([["@x", "-y", "\tz"]]), "'@x,'-y,'\tz\r\n");
});

test("a file's name takes nothing from a job's name that a file system minds", () => {
  assert.equal(fileName("Küche / ../<b>", "png"), "Küche - ..-b-.png");
  assert.equal(fileName("///", "csv"), "-.csv");
});

test("a chart that would be one dot, or nothing, is a sentence", () => {
  assert.equal(onePointText(data([], [])), "The chart begins with the first round.");
  assert.equal(onePointText({ ...data([0], [2]), series: [] }), "The chart begins with the first round.");
  assert.match(onePointText(data([0], [2.34567])), /^Only checkpoint 0 is there yet: Loss, training 2\.346\./);
});
