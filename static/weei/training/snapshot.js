/** What this device tells about its training: the founding text's PeerExecutionDiagnostics, without contents and weights. */
import { MAX_SNAPSHOT_METRICS, MAX_SNAPSHOT_TEXT } from "../protocol.js";
import { RateWindow, StageClock } from "./clock.js";
import { fallbackReason, NOT_TRIED } from "./gpu.js";

/** @typedef {import("../types.js").Assignment} Assignment */
/** @typedef {import("../types.js").Stage} Stage */

/** @param {Assignment} assignment @returns {import("../types.js").AssignmentFacts} */
function factsOf(assignment) {
  const settings = JSON.parse(assignment.settings);
  const { jobId, round, assignmentId, attemptId, chunkId, exampleCount } = assignment;
  return {
    jobId,
    round,
    assignmentId,
    attemptId,
    chunkId,
    exampleCount,
    bytes: assignment.data?.bytes ?? 0,
    batchSize: settings.batchSize,
    localEpochs: settings.localEpochs,
    learningRate: settings.learningRate ?? "unknown",
  };
}

export class Diagnostics {
  /** The server's last number of this peer; snapshots go on above it. */
  sequence = 0;
  activeWorkers = 0;
  /** @type {import("./gpu.js").GpuFacts} */ gpu = NOT_TRIED;
  /** @type {string | null} */ error = null;
  /** @type {import("../types.js").Snapshot["model"]} */ model = "unknown";
  /** @type {import("../types.js").AssignmentFacts | null} */ assignment = null;
  /** @type {Record<string, number> | null} latest values reported while training */ metrics = null;
  /** @type {Pick<import("../types.js").PeerJob, "id" | "wgsl"> | null} */ #job = null;
  /** @type {string | null} of the package, once this device has computed with it */ #backend = null;
  #nextBackend = "";
  #performance = nothingYet();
  #wall;

  /**
   * @param {{environment: import("../types.js").Environment, preferences: import("../types.js").DevicePreferences,
   *   now?: () => number, wall?: () => number}} options `now` is monotonic, `wall` is for stamps only
   */
  constructor({ environment, preferences, now = () => performance.now(), wall = Date.now }) {
    this.environment = environment;
    this.preferences = preferences;
    this.clock = new StageClock(now);
    this.rate = new RateWindow(now);
    this.#wall = wall;
  }

  /** What was measured for one job says nothing about another. @param {Pick<import("../types.js").PeerJob, "id" | "wgsl">} job */
  enterJob(job) {
    if (this.#job && this.#job.id !== job.id) {
      this.#startAnew();
      this.assignment = null;
      this.model = "unknown";
      this.#backend = null;
    }
    this.#job = job;
  }

  /** @param {string} wasmSha256 @param {{id: string, version: string}} info what the module says of itself */
  name(wasmSha256, { id, version }) {
    this.model = { id: short(id), version: short(version), wasmSha256, wgsl: this.#job?.wgsl ?? NO_SHADERS };
  }

  /** Timings and figures belong to one assignment and start again with the next. @param {Assignment} assignment */
  begin(assignment) {
    this.#startAnew();
    this.assignment = factsOf(assignment);
    this.#nextBackend = assignment.backend;
  }

  /** Between assignments; the figures of the last one stay until the next begins. */
  rest() {
    this.assignment = null;
    return this.enter("waiting");
  }

  /** @param {Stage} stage */
  enter(stage) {
    if (stage === "training") this.#backend = this.#nextBackend;
    return this.clock.enter(stage);
  }

  /** @param {string} message */
  fail(message) {
    this.error = short(message);
    return this.enter("error");
  }

  /** @param {import("../types.js").TrainReport} report */
  progress(report) {
    const performance = this.#performance;
    performance.totalExamples = report.totalExamples ?? performance.totalExamples;
    const most = performance.totalExamples === "unknown" ? Infinity : performance.totalExamples;
    // Shown progress neither falls nor passes its total, whatever a module says (C61).
    performance.processedExamples = Math.max(performance.processedExamples, Math.min(report.processedExamples, most));
    performance.optimizerSteps = report.optimizerSteps ?? performance.optimizerSteps;
    performance.lastProgressAt = this.#wall();
    this.metrics = report.metrics ? fewMetrics(report.metrics) : this.metrics;
    this.rate.add(performance.processedExamples);
  }

  /** @returns {import("../types.js").Snapshot["performance"]} */
  performance() {
    const milliseconds = this.clock.trainingMs();
    const { processedExamples } = this.#performance;
    return {
      ...this.#performance,
      currentExamplesPerSecond: this.clock.stage === "training" ? this.rate.current() : null,
      averageExamplesPerSecond: processedExamples && milliseconds > 0 ? (processedExamples * 1000) / milliseconds : null,
    };
  }

  /** The next complete snapshot. @returns {import("../types.js").Snapshot} */
  take() {
    this.sequence += 1;
    const { browser, browserVersion, os, logicalCores, webgpu } = this.environment;
    return {
      schemaVersion: 1,
      sequence: this.sequence,
      measuredAt: this.#wall(),
      environment: { browser, browserVersion, os, logicalCores },
      execution: this.#execution(),
      gpu: { webgpu, adapter: this.gpu.adapter, memoryBudgetMiB: this.preferences.gpuMemoryBudgetMiB, initializationError: this.gpu.error },
      model: this.model,
      assignment: this.assignment,
      stage: this.clock.stage,
      error: this.error,
      timings: this.clock.timings(),
      performance: this.performance(),
      metrics: this.metrics,
    };
  }

  /** @returns {import("../types.js").Snapshot["execution"]} */
  #execution() {
    const requested = this.preferences.backendPreference;
    const computed = this.#backend !== null;
    const shaders = this.#job?.wgsl?.present ?? false;
    return {
      requested,
      actual: computed ? "cpu" : "unknown",
      backend: this.#backend ?? "unknown",
      fallbackReason: computed ? fallbackReason({ requested, shaders, webgpu: this.environment.webgpu, gpu: this.gpu }) : null,
      activeWorkers: this.activeWorkers,
      workerLimit: this.preferences.maxLocalWorkers,
    };
  }

  #startAnew() {
    this.error = null;
    this.metrics = null;
    this.clock.reset();
    this.rate.clear();
    this.#performance = nothingYet();
  }
}

/** A snapshot has little room, and a module may write pages. @param {string} text */
const short = (text) => text.slice(0, MAX_SNAPSHOT_TEXT);

/** @param {Record<string, number>} metrics a module may report anything */
function fewMetrics(metrics) {
  const shown = Object.entries(metrics).filter(([id]) => id.length <= MAX_SNAPSHOT_TEXT);
  return Object.fromEntries(shown.slice(0, MAX_SNAPSHOT_METRICS));
}

const NO_SHADERS = Object.freeze({ present: false, sha256: [] });

/** @returns {Omit<import("../types.js").Snapshot["performance"], "currentExamplesPerSecond" | "averageExamplesPerSecond">} */
const nothingYet = () => ({ processedExamples: 0, totalExamples: "unknown", optimizerSteps: "unknown", lastProgressAt: null });
