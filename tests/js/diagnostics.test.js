import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { DiagnosticsBoard } from "../../static/weei/api/diagnostics.js";
import { MAX_SNAPSHOT_BYTES } from "../../static/weei/protocol.js";
import { secondsLeft } from "../../static/weei/training/clock.js";
import { Contact } from "../../static/weei/training/contact.js";
import { describeAgent, describeEnvironment } from "../../static/weei/training/environment.js";
import { Diagnostics } from "../../static/weei/training/snapshot.js";
import { checkWorkerLimit, effectiveWorkers, logicalCores } from "../../static/weei/training/workers.js";
import { FakeClock } from "./fakes.js";

const golden = JSON.parse(readFileSync(new URL("../golden/messages.json", import.meta.url), "utf8"));
const preferences = /** @type {const} */ ({ maxLocalWorkers: 2, backendPreference: "auto", gpuMemoryBudgetMiB: 1024 });
const environment = /** @type {const} */ ({ browser: "Firefox", browserVersion: "153", os: "Linux", logicalCores: 2, webgpu: "unavailable" });

function board() {
  const mono = new FakeClock();
  const wall = new FakeClock();
  return { mono, wall, diagnostics: new Diagnostics({ environment, preferences, now: mono.now, wall: wall.now }) };
}

const vectors = JSON.parse(readFileSync(new URL("../golden/diagnostics.json", import.meta.url), "utf8"));

/** Plays the steps of a golden script; `expect` compares the members that it names. */
function player() {
  const { mono, wall, diagnostics } = board();
  diagnostics.preferences = { maxLocalWorkers: 2, backendPreference: "cpu", gpuMemoryBudgetMiB: 0 };
  wall.at = 1764421200000;
  /** @type {Record<string, (argument: any) => void>} */
  const steps = {
    above: (sequence) => (diagnostics.sequence = Math.max(diagnostics.sequence, sequence)),
    job: () => diagnostics.enterJob(vectors.job),
    name: () => diagnostics.name(vectors.job.module.sha256, vectors.model),
    begin: (change) => diagnostics.begin({ ...vectors.assignment, ...change }),
    enter: (stage) => diagnostics.enter(stage),
    time: (stage) => diagnostics.clock.time(stage),
    workers: (count) => (diagnostics.activeWorkers = count),
    progress: (report) => diagnostics.progress(report),
    fail: (reason) => diagnostics.fail(reason),
    rest: () => diagnostics.rest(),
    wall: (ms) => wall.move(ms),
    wait: (ms) => {
      mono.move(ms);
      wall.move(ms);
    },
    expect: (expected) => assertHolds(diagnostics.take(), expected === "whole" ? vectors.whole : expected, "snapshot"),
  };
  return { diagnostics, play: (/** @type {[string, any]} */ [name, argument]) => steps[name]?.(argument) };
}

/** @param {any} found @param {any} expected @param {string} path */
function assertHolds(found, expected, path) {
  if (typeof expected !== "object" || expected === null || Array.isArray(expected)) return assert.deepEqual(found, expected, path);
  for (const [name, value] of Object.entries(expected)) assertHolds(found[name], value, `${path}.${name}`);
}

for (const { name, steps } of vectors.scripts) {
  test(`measures: ${name}`, () => {
    const { play } = player();
    for (const step of steps) play(step);
  });
}

test("the whole snapshot has no other members, and the largest one has room in its message", () => {
  const { diagnostics, play } = player();
  for (const step of vectors.scripts[0].steps.slice(0, -1)) play(step);
  assert.deepEqual(diagnostics.take(), vectors.whole);
  const long = "\u00e4".repeat(10_000);
  diagnostics.enterJob({ ...vectors.job, wgsl: { present: true, sha256: Array(64).fill("a".repeat(64)) } });
  diagnostics.name(vectors.job.module.sha256, { id: long, version: long });
  diagnostics.gpu = { adapter: { vendor: "v".repeat(100), architecture: "a".repeat(100), device: "d".repeat(100), description: "x".repeat(100) }, error: "e".repeat(300) };
  diagnostics.fail(long);
  assert.ok(new TextEncoder().encode(JSON.stringify(diagnostics.take())).length < MAX_SNAPSHOT_BYTES);
});

test("what was measured for one job says nothing about the next", () => {
  const { diagnostics, play } = player();
  for (const step of vectors.scripts[0].steps.slice(0, -1)) play(step);
  diagnostics.fail("of the first job");
  diagnostics.enterJob(vectors.job);
  assert.equal(diagnostics.take().error, "of the first job", "still the same job");
  diagnostics.enterJob({ ...vectors.job, id: "another" });
  const { model, error, assignment: at, execution, performance: figures, timings } = diagnostics.take();
  assert.deepEqual([model, error, at, execution.actual, execution.backend], ["unknown", null, null, "unknown", "unknown"]);
  assert.deepEqual([figures.processedExamples, figures.lastProgressAt, timings.preparationMs], [0, null, null]);
});

test("time left is absent rather than infinite, NaN or a false zero (C74)", () => {
  assert.equal(secondsLeft(50, 100, 10), 5);
  for (const args of /** @type {const} */ ([[50, 100, 0], [50, 100, null], [100, 100, 10], [0, 0, 10], [0, null, 10], [0, 100, NaN]])) {
    assert.equal(secondsLeft(args[0], args[1], args[2]), undefined, JSON.stringify(args));
  }
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

const GREASE = { brand: "Not)A;Brand", version: "8" };
const chrome = `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 ${KHTML} Chrome/126.0.0.0 Safari/537.36`;
for (const [brands, platform, expected] of /** @type {const} */ ([
  [[["Chromium", "126"], ["Google Chrome", "126"]], "Linux", ["Chrome", "126", "Linux"]],
  [[["Brave", "126"], ["Chromium", "126"]], "macOS", ["Brave", "126", "macOS"]],
  [[["Chromium", "126"]], "Chrome OS", ["Chromium", "126", "ChromeOS"]],
  [[["Chromium", "124"], ["Opera", "110"]], "Windows", ["Opera", "110", "Windows"]],
  [[["Chromium", "126"], ["Microsoft Edge", "126"]], "Android", ["Edge", "126", "Android"]],
  [[], "", ["Chrome", "126", "Linux"]],
])) {
  test(`client hints come before the user agent, which is Chrome's: ${expected.join(" ")} of ${brands.length} brands`, () => {
    const hints = { brands: [GREASE, ...brands.map(([brand, version]) => ({ brand, version }))], platform };
    const { browser, browserVersion, os } = describeEnvironment({ userAgent: chrome, userAgentData: hints });
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
