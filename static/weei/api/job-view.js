/** `state.job`: what the server tells of the job, and what this device knows of its own Workers. */
import { effectiveWorkers, MOST_WORKERS } from "../training/workers.js";
import { lazily, without } from "./copies.js";

/** @typedef {import("../weei.js").TrainingJob} TrainingJob */
/** @typedef {import("../types.js").ControlState} ControlState */
/** @typedef {import("./live-job.js").Told} Told */
/** Where the pass stood. @typedef {{cursor: number, order: number | null, requeued: string[]}} Place */

/**
 * A copy for one reader. Lists that may be long are made when they are read.
 * @param {{told: Told, control: ControlState | null, preferences: import("../types.js").DevicePreferences, cores: number | "unknown"}} of
 * @returns {TrainingJob | undefined}
 */
export function jobView({ told, control, preferences, cores }) {
  if (!told.wire) return undefined;
  const { queue } = told.wire;
  const job = structuredClone(without(told.wire, "queue", "peers", "transitioning", "validating"));
  job.localWorkers = localWorkers({ job, control, preferences, cores });
  lazily(job, "queue", () => itemsLeft(queue, told.orders));
  return lazily(job, "checkpoints", () => told.checkpoints.map((checkpoint) => checkpointView(checkpoint, told.orders)));
}

/** @param {Record<string, any>} checkpoint @param {Told["orders"]} orders */
function checkpointView(checkpoint, orders) {
  return lazily(structuredClone(without(checkpoint, "remaining")), "remaining", () => itemsLeft(checkpoint.remaining, orders));
}

/** Ids of what is left of a pass; none without data. @param {Place | null} place @param {Told["orders"]} orders @returns {string[]} */
function itemsLeft(place, orders) {
  if (!place) return [];
  return [...place.requeued, ...(orders.get(place.order) ?? []).slice(place.cursor)];
}

/** @param {{job: Record<string, any>, control: ControlState | null, preferences: import("../types.js").DevicePreferences, cores: number | "unknown"}} of */
function localWorkers({ job, control, preferences, cores }) {
  const { workSource, maxWorkers = 1 } = job.info;
  const requested = job.settings.workers ?? 1;
  // Only work without input data is divided.
  const bounds = { limit: preferences.maxLocalWorkers, cores, maxWorkers: workSource?.inputs === "none" ? maxWorkers : 1 };
  return {
    requested,
    capacity: effectiveWorkers({ ...bounds, requested: MOST_WORKERS, units: MOST_WORKERS }),
    effective: effectiveWorkers({ ...bounds, requested, units: job.settings.experience?.unitsPerAssignment ?? MOST_WORKERS }),
    active: control?.activeWorkers ?? 0,
  };
}
