/** TrainingState: made anew from its sources at every change, given out as copies only. The one reducer of this browser. */
import { jobView } from "./job-view.js";
import { lazily } from "./copies.js";
import { nothingTold } from "./live-job.js";

/** @typedef {import("../types.js").ControlState} ControlState */
/** @typedef {import("../weei.js").TrainingState} TrainingState */
/** @typedef {(state: TrainingState) => void} Listener */

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
  /** The job, as the server tells it. */ told = nothingTold();
  /** @type {Map<string, Record<string, any>>} opened invitations by job */ invitations = new Map();
  /** @type {import("../types.js").FileProgress[]} */ upload = [];
  /** @type {import("../types.js").DraftState | null} */ draft = null;
  /** @type {string | undefined} */ error;
  commands = 0;
  preparing = false;

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
    const state = /** @type {TrainingState} */ (/** @type {unknown} */ (structuredClone(this.#build())));
    const job = jobView(this);
    if (job) state.job = job;
    const points = this.diagnostics.liveMetrics;
    return lazily(state, "liveMetrics", () => structuredClone(points));
  }

  /** @param {Listener} listener @returns {() => void} */
  subscribe(listener) {
    this.#listeners.add(listener);
    this.#tell(listener);
    return () => void this.#listeners.delete(listener);
  }

  changed() {
    for (const listener of [...this.#listeners]) this.#tell(listener);
  }

  /** A listener that throws does not keep the state from the others. @param {Listener} listener */
  #tell(listener) {
    try {
      listener(this.get());
    } catch (error) {
      reportError(error);
    }
  }

  #build() {
    const { control, preferences, diagnostics } = this;
    const { wire, complete } = this.told;
    const remainingMs = wire?.progress.estimatedRemainingMs;
    const me = control?.peerId ?? "";
    return {
      ready: true,
      myPeerId: me,
      busy: this.commands > 0,
      preparing: this.preparing,
      transitioning: wire?.transitioning ?? false,
      evaluating: Boolean(wire?.validating.length),
      ...(this.error === undefined ? {} : { error: this.error }),
      peers: (wire?.peers ?? []).filter((/** @type {string} */ peer) => peer !== me),
      invitations: this.#pendingInvitations(),
      progress: diagnostics.progress(wire?.id),
      transfers: control?.transfers ?? [],
      transferErrors: control?.transferErrors ?? {},
      ...(remainingMs === undefined ? {} : { estimatedRemainingMs: remainingMs }),
      pausedContribution: control?.peerJob?.pausedByPeer ?? false,
      activeWorkers: control?.activeWorkers ?? 0,
      backendPreference: preferences.backendPreference,
      execution: executionOf(control, preferences),
      maxLocalWorkers: preferences.maxLocalWorkers,
      gpuMemoryBudgetMiB: preferences.gpuMemoryBudgetMiB,
      diagnostics: diagnostics.view(wire?.id),
      participation: control?.participation ?? nobody(),
      upload: this.upload,
      draft: this.draft,
      checkpointsPage: { complete },
    };
  }

  #pendingInvitations() {
    const opened = [...this.invitations].filter(([, { state }]) => state === "invited").map(([id]) => id);
    const ids = new Set([...(this.control?.invitations ?? []), ...opened]);
    return [...ids]
      .filter((id) => this.control?.peerJob?.id !== id)
      .map((id) => [id, { state: "invited", invitation: this.#factsOf(id) }]);
  }

  /** What an invitation offers; null until it was read. @param {string} jobId */
  #factsOf(jobId) {
    const facts = this.invitations.get(jobId);
    return facts?.modelInfo ? facts : null;
  }
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
