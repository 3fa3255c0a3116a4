import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { DiagnosticsBoard } from "../../static/weei/api/diagnostics.js";
import { MAX_SNAPSHOT_BYTES } from "../../static/weei/protocol.js";
import { RateWindow, secondsLeft, StageClock } from "../../static/weei/training/clock.js";
import { Contact } from "../../static/weei/training/contact.js";
import { describeAgent, describeEnvironment } from "../../static/weei/training/environment.js";
import { Diagnostics } from "../../static/weei/training/snapshot.js";
import { checkWorkerLimit, effectiveWorkers, logicalCores } from "../../static/weei/training/workers.js";
import { FakeClock } from "./fakes.js";

const golden = JSON.parse(readFileSync(new URL("../golden/messages.json", import.meta.url), "utf8"));
const assignment = golden.server[1].assignment;
const preferences = /** @type {const} */ ({ maxLocalWorkers: 2, backendPreference: "auto", gpuMemoryBudgetMiB: 1024 });
const environment = /** @type {const} */ ({ browser: "Firefox", browserVersion: "153", os: "Linux", logicalCores: 2, webgpu: "unavailable" });

function board() {
  const mono = new FakeClock();
  const wall = new FakeClock();
  return { mono, wall, diagnostics: new Diagnostics({ environment, preferences, now: mono.now, wall: wall.now }) };
}

test("a stage counts its own time only, and is summed when entered twice", () => {
  const clock = new FakeClock();
  const stages = new StageClock(clock.now);
  for (const [stage, ms] of /** @type {const} */ ([["receiving", 500], ["preparing", 20], ["training", 300], ["uploading", 40], ["training", 100]])) {
    stages.enter(stage);
    clock.move(ms);
  }
  assert.deepEqual(stages.timings(), { preparationMs: 20, compilationMs: null, trainingMs: 300, uploadMs: 40 });
  assert.equal(stages.trainingMs(), 400);
  stages.enter("awaitingAggregation");
  assert.equal(stages.timings().trainingMs, 400);
  stages.reset();
  assert.deepEqual(stages.timings(), { preparationMs: null, compilationMs: null, trainingMs: null, uploadMs: null });
});

test("speed needs two samples at different times in the last five seconds (C74)", () => {
  const clock = new FakeClock();
  const rate = new RateWindow(clock.now);
  assert.equal(rate.current(), null);
  rate.add(10);
  assert.equal(rate.current(), null);
  rate.add(20);
  assert.equal(rate.current(), null, "two samples of one instant");
  clock.move(1000);
  rate.add(120);
  assert.equal(rate.current(), 100);
  clock.move(6000);
  assert.equal(rate.current(), null, "nothing for six seconds");
});

test("time left is absent rather than infinite, NaN or a false zero (C74)", () => {
  assert.equal(secondsLeft(50, 100, 10), 5);
  for (const args of /** @type {const} */ ([[50, 100, 0], [50, 100, null], [100, 100, 10], [0, 0, 10], [0, null, 10], [0, 100, NaN]])) {
    assert.equal(secondsLeft(args[0], args[1], args[2]), undefined, JSON.stringify(args));
  }
});

test("a wall clock that jumps changes no duration and no speed (C75)", () => {
  const { mono, wall, diagnostics } = board();
  diagnostics.begin(assignment);
  diagnostics.enter("training");
  diagnostics.progress({ processedExamples: 10, totalExamples: 100 });
  wall.move(3_600_000);
  mono.move(1000);
  diagnostics.progress({ processedExamples: 20, totalExamples: 100 });
  wall.move(-7_200_000);
  mono.move(1000);
  const { timings, performance } = diagnostics.take();
  assert.equal(timings.trainingMs, null);
  assert.equal(performance.averageExamplesPerSecond, 10);
  assert.ok(performance.currentExamplesPerSecond !== null && performance.currentExamplesPerSecond >= 0 && performance.currentExamplesPerSecond <= 20);
  diagnostics.enter("uploading");
  assert.equal(diagnostics.take().timings.trainingMs, 2000);
});

test("a machine whose clocks stopped or jumped has slept (C75)", (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  for (const [monoMs, wallMs] of /** @type {const} */ ([[1000, 3_600_000], [3_600_000, 3_600_000]])) {
    const mono = new FakeClock();
    const wall = new FakeClock();
    const contact = new Contact({ now: mono.now, wall: wall.now });
    contact.heard();
    /** @type {number[]} */
    const gaps = [];
    contact.start((gap) => gaps.push(gap));
    mono.move(1000);
    wall.move(1000);
    context.mock.timers.tick(1000);
    assert.deepEqual(gaps, []);
    mono.move(monoMs);
    wall.move(wallMs);
    context.mock.timers.tick(1000);
    assert.equal(gaps.length, 1);
    assert.ok(contact.leaseMayHaveEnded());
    contact.stop();
  }
});

test("shown progress neither falls nor passes its total (C61)", () => {
  const { diagnostics } = board();
  diagnostics.begin(assignment);
  diagnostics.enter("training");
  for (const processedExamples of [50, 40, 500]) diagnostics.progress({ processedExamples, totalExamples: 128 });
  assert.equal(diagnostics.take().performance.processedExamples, 128);
});

test("a snapshot has exactly the fields of the golden one, and room to spare", () => {
  const { mono, diagnostics } = board();
  /** @type {(value: unknown) => unknown} */
  const shape = (value) =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shape(item)])) : null;
  diagnostics.sequence = 16;
  diagnostics.begin(assignment);
  diagnostics.model = golden.client[2].snapshot.model;
  diagnostics.enter("preparing");
  mono.move(12.5);
  diagnostics.enter("training");
  mono.move(100);
  diagnostics.progress({ processedExamples: 96, totalExamples: 256, optimizerSteps: 6 });
  const snapshot = diagnostics.take();
  assert.deepEqual(shape(snapshot), shape(golden.client[2].snapshot));
  assert.equal(snapshot.sequence, 17);
  assert.equal(snapshot.execution.actual, "cpu");
  assert.ok(JSON.stringify(snapshot).length < MAX_SNAPSHOT_BYTES);
});

test("before anything was computed the mode is unknown, and figures are null", () => {
  const snapshot = board().diagnostics.take();
  assert.equal(snapshot.execution.actual, "unknown");
  assert.equal(snapshot.assignment, null);
  assert.equal(snapshot.performance.averageExamplesPerSecond, null);
  assert.equal(snapshot.performance.lastProgressAt, null);
});

test("age is this browser's own, never the peer's clock (C70)", () => {
  const mono = new FakeClock();
  const wall = new FakeClock();
  const shown = new DiagnosticsBoard({ now: mono.now, wall: wall.now });
  const snapshot = { ...board().diagnostics.take(), measuredAt: 9e15 };
  const of = (/** @type {string} */ job) => shown.view(job).p;
  shown.receive("p", { snapshot, heldMs: 0, connected: true });
  mono.move(10_000);
  wall.move(-3_600_000);
  assert.deepEqual([of("j")?.ageMs, of("j")?.stale], [10_000, false]);
  mono.move(1);
  assert.equal(of("j")?.stale, true);
  shown.receive("p", { snapshot: { ...snapshot, sequence: 99 }, heldMs: 120, connected: true });
  assert.deepEqual([of("j")?.ageMs, of("j")?.receivedAt], [120, wall.now() - 120]);
  shown.receive("p", { snapshot: { ...snapshot, sequence: 98, stage: "error" } });
  assert.equal(of("j")?.sequence, 99, "an older one is ignored");
  shown.receive("p", { connected: false });
  assert.deepEqual([of("j")?.stale, of("j")?.sequence], [true, 99]);
  shown.receive("p", { snapshot: { ...snapshot, sequence: 100, assignment: { ...golden.client[2].snapshot.assignment, jobId: "other" } } });
  assert.equal(of("j"), undefined, "of another job");
});

const KHTML = "(KHTML, like Gecko)";
for (const [agent, expected] of /** @type {const} */ ([
  [`(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 ${KHTML} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.2592.56`, ["Edge", "126", "Windows"]],
  [`(Linux; Android 10; K) AppleWebKit/537.36 ${KHTML} Chrome/126.0.0.0 Mobile Safari/537.36 EdgA/126.0.2592.56`, ["Edge", "126", "Android"]],
  [`(iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 ${KHTML} Version/17.0 EdgiOS/126.0.2592.56 Mobile/15E148 Safari/605.1.15`, ["Edge", "126", "iOS"]],
  [`(iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 ${KHTML} CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1`, ["Chrome", "126", "iOS"]],
  [`(iPad; CPU OS 16_7 like Mac OS X) AppleWebKit/605.1.15 ${KHTML} FxiOS/127.0 Mobile/15E148 Safari/605.1.15`, ["Firefox", "127", "iOS"]],
  [`(Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 ${KHTML} Chrome/124.0.0.0 Safari/537.36 OPR/110.0.0.0`, ["Opera", "110", "macOS"]],
  [`(Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 ${KHTML} Version/17.5 Safari/605.1.15`, ["Safari", "17.5", "macOS"]],
  [`(X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 ${KHTML} Chrome/126.0.0.0 Safari/537.36`, ["Chrome", "126", "ChromeOS"]],
  ["(X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", ["Firefox", "127", "Linux"]],
  ["<img src=x onerror=alert(1)>", ["unknown", "unknown", "unknown"]],
])) {
  test(`reads the user agent of ${expected.join(" ")} (C72)`, () => {
    const { browser, browserVersion, os } = describeAgent(`Mozilla/5.0 ${agent}`);
    assert.deepEqual([browser, browserVersion, os], expected);
  });
}

test("a missing core count is unknown, and Workers are still at least one (C69)", () => {
  for (const hardwareConcurrency of [undefined, 0, -1, NaN]) {
    assert.equal(logicalCores({ hardwareConcurrency }), "unknown");
    assert.equal(describeEnvironment({ userAgent: "", hardwareConcurrency }).logicalCores, "unknown");
  }
  assert.equal(logicalCores({ hardwareConcurrency: 1 }), 1);
  assert.equal(effectiveWorkers({ requested: 4, limit: 4, cores: "unknown", maxWorkers: 4, units: 32 }), 4);
  assert.equal(effectiveWorkers({ requested: 4, limit: 4, cores: 1, maxWorkers: 4, units: 32 }), 1);
  assert.equal(effectiveWorkers({ requested: 8, limit: 3, cores: 8, maxWorkers: 4, units: 2 }), 2);
  assert.equal(effectiveWorkers({ requested: NaN, cores: 8, maxWorkers: 0 }), 1);
  for (const bad of [0, -1, NaN, 2.5, "2", undefined, 65]) assert.throws(() => checkWorkerLimit(bad), /whole number from 1 to 64/);
});
