/** TrainingState: made anew from its sources at every change, given out as copies only. */
import { jobView } from "./job-view.js";

/** @typedef {import("../types.js").ControlState} ControlState */
/** @typedef {Record<string, any>} TrainingState */
/** @typedef {(state: TrainingState) => void} Listener */

const MAX_LIVE_POINTS = 500;

/** @returns {import("../types.js").Participation} */
const nobody = () => ({
  stage: "waiting",
  assignment: null,
  processedExamples: 0,
  totalExamples: null,
  examplesPerSecond: null,
  metrics: null,
  waitingFor: null,
  connected: false,
  replaced: false,
  paused: false,
  error: null,
  job: null,
});

export class StateStore {
  /** @type {Set<Listener>} */ #listeners = new Set();
  /** @type {ControlState | null} */ control = null;
  /** @type {Record<string, any> | null} the job this page coordinates, as the server gave it */ coordinated = null;
  /** @type {Map<string, Record<string, any>>} opened invitations by job */ invitations = new Map();
  /** @type {import("../types.js").FileProgress[]} */ upload = [];
  /** @type {import("../types.js").DraftState | null} */ draft = null;
  /** @type {Record<string, Array<{at: number, values: Record<string, number>}>>} */ liveMetrics = {};
  /** @type {string | undefined} */ error;
  commands = 0;
  preparing = false;
  checkpointsComplete = false;

  /**
   * @param {{diagnostics: import("./diagnostics.js").DiagnosticsBoard, preferences: import("../types.js").DevicePreferences,
   *   cores: number | "unknown"}} of
   */
  constructor({ diagnostics, preferences, cores }) {
    this.diagnostics = diagnostics;
    this.preferences = preferences;
    this.cores = cores;
  }

  /** @returns {TrainingState} */
  get() {
    return structuredClone(this.#build());
  }

  /** @param {Listener} listener @returns {() => void} */
  subscribe(listener) {
    this.#listeners.add(listener);
    listener(this.get());
    return () => void this.#listeners.delete(listener);
  }

  /** Tell everybody. A listener that throws does not keep the state from the others. */
  changed() {
    for (const listener of [...this.#listeners]) {
      try {
        listener(this.get());
      } catch (error) {
        reportError(error);
      }
    }
  }

  /** @param {string} peerId @param {Record<string, number>} values @param {number} at */
  addLiveMetrics(peerId, values, at) {
    const points = (this.liveMetrics[peerId] ??= []);
    points.push({ at, values });
    if (points.length > MAX_LIVE_POINTS) points.splice(0, points.length - MAX_LIVE_POINTS);
  }

  /** @returns {TrainingState} */
  #build() {
    const { control, preferences } = this;
    const job = jobView(this);
    const diagnostics = this.diagnostics.view(job?.id);
    return {
      ready: true,
      myPeerId: control?.peerId ?? "",
      busy: this.commands > 0,
      preparing: this.preparing,
      transitioning: Boolean(job?.transitioning),
      evaluating: Boolean(job?.evaluating),
      ...(this.error === undefined ? {} : { error: this.error }),
      peers: job?.peers ?? [],
      invitations: this.#pendingInvitations(),
      progress: progressOf(diagnostics),
      liveMetrics: this.liveMetrics,
      transfers: control?.transfers ?? [],
      transferErrors: control?.transferErrors ?? {},
      ...(job?.progress?.estimatedRemainingMs === undefined ? {} : { estimatedRemainingMs: job.progress.estimatedRemainingMs }),
      pausedContribution: control?.peerJob?.pausedByPeer ?? false,
      activeWorkers: control?.activeWorkers ?? 0,
      backendPreference: preferences.backendPreference,
      execution: executionOf(control, preferences),
      maxLocalWorkers: preferences.maxLocalWorkers,
      gpuMemoryBudgetMiB: preferences.gpuMemoryBudgetMiB,
      diagnostics,
      participation: control?.participation ?? nobody(),
      upload: this.upload,
      draft: this.draft,
      checkpointsPage: { complete: this.checkpointsComplete },
      ...(job ? { job } : {}),
    };
  }

  #pendingInvitations() {
    const opened = [...this.invitations].filter(([, { state }]) => state === "invited").map(([id]) => id);
    const ids = new Set([...(this.control?.invitations ?? []), ...opened]);
    return [...ids]
      .filter((id) => this.control?.peerJob?.id !== id)
      .map((id) => [id, { state: "invited", invitation: this.invitations.get(id) ?? null }]);
  }
}

/** @param {Record<string, any>} diagnostics */
function progressOf(diagnostics) {
  /** @type {Record<string, object>} */
  const progress = {};
  for (const [peerId, { performance, receivedAt, stage }] of Object.entries(diagnostics)) {
    if (stage !== "training" || !performance) continue;
    const { processedExamples, totalExamples, currentExamplesPerSecond } = performance;
    progress[peerId] = {
      processedExamples,
      ...(totalExamples === "unknown" ? {} : { totalExamples }),
      ...(currentExamplesPerSecond === null ? {} : { recordsPerSecond: currentExamplesPerSecond }),
      updatedAt: receivedAt,
    };
  }
  return progress;
}

/** @param {ControlState | null} control @param {import("../types.js").DevicePreferences} preferences */
function executionOf(control, preferences) {
  const execution = control?.snapshot?.execution;
  return {
    requested: preferences.backendPreference,
    actual: execution?.actual ?? "unknown",
    phase: control?.participation.stage ?? "waiting",
    fallback: execution?.fallbackReason ?? "",
  };
}
