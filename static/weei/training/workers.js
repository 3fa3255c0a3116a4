/** How many Workers this device may run (C69). */

/** @param {{hardwareConcurrency?: number}} navigator @returns {number | "unknown"} */
export function logicalCores({ hardwareConcurrency }) {
  return Number.isInteger(hardwareConcurrency) && Number(hardwareConcurrency) > 0 ? Number(hardwareConcurrency) : "unknown";
}

/** @param {unknown} value @returns {number} */
export function checkWorkerLimit(value) {
  if (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 64) return Number(value);
  throw new Error(`maxLocalWorkers must be a whole number from 1 to 64; found ${String(value)}.`);
}

/** How many training Workers this device runs at most. @param {number} limit its owner's choice @param {number | "unknown"} cores */
export function deviceWorkers(limit, cores) {
  return effectiveWorkers({ requested: 64, limit, cores, maxWorkers: 64, units: 64 });
}

/**
 * Never below 1, never above what the job, this device's limit, its cores, the model or the units allow.
 * @param {{requested?: number, limit?: number, cores: number | "unknown", maxWorkers?: number, units?: number}} of
 */
export function effectiveWorkers({ requested = 1, limit = 64, cores, maxWorkers = 1, units = 1 }) {
  const bounds = [requested, limit, cores === "unknown" ? 64 : cores, maxWorkers, units];
  return Math.max(1, Math.min(...bounds.map((bound) => (Number.isInteger(bound) ? bound : 1))));
}
