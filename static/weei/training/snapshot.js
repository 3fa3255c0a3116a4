/** What this device tells about its training: the founding text's PeerExecutionDiagnostics, without contents and weights. */
import { RateWindow, StageClock } from "./clock.js";

/** @typedef {import("../types.js").Assignment} Assignment */
/** @typedef {import("../types.js").Stage} Stage */

/** @param {Assignment} assignment @returns {import("../types.js").AssignmentFacts} */
export function factsOf(assignment) {
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
  /** @type {string | null} */ error = null;
  activeWorkers = 0;
  /** @type {import("../types.js").Snapshot["model"]} */ model = "unknown";
  /** @type {import("../types.js").AssignmentFacts | null} */ assignment = null;
  /** @type {Record<string, number> | null} latest values reported while training */ metrics = null;
  #computed = false;
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

  /** Timings and figures belong to one assignment and start again with the next. @param {Assignment} assignment */
  begin(assignment) {
    this.assignment = factsOf(assignment);
    this.error = null;
    this.clock.reset();
    this.rate.clear();
    this.#performance = nothingYet();
    this.metrics = null;
  }

  /** @param {Stage} stage */
  enter(stage) {
    if (stage === "training") {
      this.#computed = true;
      if (this.clock.stage !== "training") this.rate.add(this.#performance.processedExamples);
    }
    return this.clock.enter(stage);
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
    this.metrics = report.metrics ?? this.metrics;
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
      gpu: { webgpu, adapter: "unknown", memoryBudgetMiB: this.preferences.gpuMemoryBudgetMiB, initializationError: "unknown" },
      model: this.model,
      assignment: this.assignment,
      stage: this.clock.stage,
      error: this.error,
      timings: this.clock.timings(),
      performance: this.performance(),
    };
  }

  #execution() {
    const requested = this.preferences.backendPreference;
    const fallback = this.#computed && (requested === "gpu" || requested === "hybrid") ? "The package has no GPU backend for this work." : null;
    return {
      requested,
      actual: this.#computed ? "cpu" : "unknown",
      backend: this.#computed ? "cpu-wasm" : "unknown",
      fallbackReason: fallback,
      activeWorkers: this.activeWorkers,
      workerLimit: this.preferences.maxLocalWorkers,
    };
  }
}

/** @returns {Omit<import("../types.js").Snapshot["performance"], "currentExamplesPerSecond" | "averageExamplesPerSecond">} */
const nothingYet = () => ({ processedExamples: 0, totalExamples: "unknown", optimizerSteps: "unknown", lastProgressAt: null });
