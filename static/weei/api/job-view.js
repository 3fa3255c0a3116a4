/** `state.job`: the server's job for its coordinator, and what a participant's peer state tells of it. */
import { effectiveWorkers, MOST_WORKERS } from "../training/workers.js";

/** @typedef {import("../types.js").ControlState} ControlState */
/** @typedef {Record<string, any>} Job */

/**
 * @param {{peerJob: import("../types.js").PeerJob, peerId: string, invitation: Record<string, any> | null, participation: import("../types.js").Participation}} of
 * @returns {Job}
 */
function participantJob({ peerJob, peerId, invitation, participation }) {
  return {
    id: peerJob.id,
    name: peerJob.name,
    role: "participant",
    status: peerJob.status,
    owner: invitation?.coordinator ?? "",
    info: invitation?.modelInfo ?? {},
    settings: invitation?.settings ?? {},
    participants: {
      [peerId]: { connected: participation.connected, approved: true, paused: peerJob.pausedByPeer || peerJob.pausedByCoordinator, state: peerJob.state },
    },
    progress: {
      datasetEpoch: peerJob.passesDone,
      plannedEpochs: peerJob.plannedPasses,
      remainingChunks: 0,
      totalChunks: 0,
      running: peerJob.status === "running",
    },
    queue: [],
    checkpoints: [],
    slots: [],
    incomplete: false,
    shuffled: false,
    validationUnavailable: false,
    module: peerJob.module,
    hasModuleFile: false,
  };
}

/**
 * @param {{coordinated: Job | null, control: ControlState | null, invitations: Map<string, Record<string, any>>,
 *   preferences: import("../types.js").DevicePreferences, cores: number | "unknown"}} of
 * @returns {Job | undefined}
 */
export function jobView({ coordinated, control, invitations, preferences, cores }) {
  const peerJob = control?.peerJob ?? null;
  const job = coordinated
    ? { role: "coordinator", queue: [], checkpoints: [], slots: [], participants: {}, hasModuleFile: true, ...coordinated }
    : peerJob && control
      ? participantJob({ peerJob, peerId: control.peerId, invitation: invitations.get(peerJob.id) ?? null, participation: control.participation })
      : null;
  if (!job) return undefined;
  return { ...job, localWorkers: localWorkers({ job, control, preferences, cores }) };
}

/** @param {{job: Job, control: ControlState | null, preferences: import("../types.js").DevicePreferences, cores: number | "unknown"}} of */
function localWorkers({ job, control, preferences, cores }) {
  const { workSource, maxWorkers = 1 } = job.info ?? {};
  const requested = job.settings?.workers ?? control?.peerJob?.workers ?? 1;
  // Only work without input data is divided.
  const bounds = { limit: preferences.maxLocalWorkers, cores, maxWorkers: workSource?.inputs === "none" ? maxWorkers : 1 };
  return {
    requested,
    capacity: effectiveWorkers({ ...bounds, requested: MOST_WORKERS, units: MOST_WORKERS }),
    effective: effectiveWorkers({ ...bounds, requested, units: job.settings?.experience?.unitsPerAssignment ?? MOST_WORKERS }),
    active: control?.activeWorkers ?? 0,
  };
}
