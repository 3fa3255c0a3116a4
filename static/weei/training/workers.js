/** How many Workers this device may run (C69). */

export const MOST_WORKERS = 64;

/** @param {{hardwareConcurrency?: number}} navigator @returns {number | "unknown"} */
export function logicalCores({ hardwareConcurrency }) {
  return Number.isInteger(hardwareConcurrency) && Number(hardwareConcurrency) > 0 ? Number(hardwareConcurrency) : "unknown";
}

/** @param {unknown} value @returns {boolean} */
export function isWorkerLimit(value) {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MOST_WORKERS;
}

/** @param {unknown} value */
export function checkWorkerLimit(value) {
  if (!isWorkerLimit(value)) throw new Error(`maxLocalWorkers must be a whole number from 1 to ${MOST_WORKERS}; found ${String(value)}.`);
}

/** How many training Workers this device runs at most. @param {number} limit its owner's choice @param {number | "unknown"} cores */
export function deviceWorkers(limit, cores) {
  return effectiveWorkers({ requested: MOST_WORKERS, limit, cores, maxWorkers: MOST_WORKERS, units: MOST_WORKERS });
}

/**
 * Never below 1, never above what the job, this device's limit, its cores, the model or the units allow.
 * @param {{requested?: number, limit?: number, cores: number | "unknown", maxWorkers?: number, units?: number}} of
 */
export function effectiveWorkers({ requested = 1, limit = MOST_WORKERS, cores, maxWorkers = 1, units = 1 }) {
  const bounds = [requested, limit, cores === "unknown" ? MOST_WORKERS : cores, maxWorkers, units];
  return Math.max(1, Math.min(...bounds.map((bound) => (Number.isInteger(bound) ? bound : 1))));
}
