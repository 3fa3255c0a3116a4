/**
 * The file of a debug log: events, and what the finished phases among them say. Twin of jobs/domain/debug_log.py;
 * tests/golden/debug_log.json holds both to the same answers.
 */

export const CAPACITY = 1000;
const PHASE_FINISHED = "phase.finished";
const MAX_NAME = 60;
const MAX_TEXT = 300;
const MAX_NESTED = 1000;
const MAX_DETAILS = 20;
/** All tokens here, those of invitation links too, have so many random characters or more; a SHA-256 is none. */
const SECRET = /[\w-]{43,}/g;
const SHA256 = /^[0-9a-f]{64}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** @typedef {import("../weei.js").TrainingDebugEvent} TrainingDebugEvent */
/** @typedef {{phase: string, ms: number, end: number, round?: unknown, jobId?: unknown, from?: unknown}} Phase */

/**
 * Texts come from modules, files and other people: they are cut, and what looks like a secret is left out.
 * @param {string} at @param {string} name @param {object} details @returns {TrainingDebugEvent}
 */
export function eventOf(at, name, details) {
  const kept = Object.entries(JSON.parse(JSON.stringify(details))).slice(0, MAX_DETAILS);
  const shortened = Object.fromEntries(kept.map(([key, value]) => [key, short(value)]));
  return { at, event: cut(name, MAX_NAME), ...(kept.length ? { details: shortened } : {}) };
}

/** Of what came from a storage or a server. @param {any} value @returns {boolean} */
export function isEvent(value) {
  if (typeof value?.at !== "string" || !INSTANT.test(value.at) || Number.isNaN(Date.parse(value.at))) return false;
  return typeof value.event === "string" && (value.details === undefined || isObject(value.details));
}

/** @param {TrainingDebugEvent[]} events @param {string} exportedAt @returns {import("../weei.js").TrainingDebugLogFile} */
export function logFile(events, exportedAt) {
  return { schemaVersion: 2, exportedAt, baseline: { phases: phaseStatistics(events), idle: idleStatistics(events) }, events };
}

/** By the name of the phase. @param {TrainingDebugEvent[]} events */
function phaseStatistics(events) {
  const durations = grouped(phasesOf(events), ({ phase }) => phase);
  const named = [...durations].sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(named.map(([name, phases]) => [name, statistics(phases.map(({ ms }) => ms))]));
}

/**
 * `p50Ms` is a duration that was measured: the least one that half of all do not exceed (of an even number the lower of the two in the
 * middle).
 * @param {number[]} durations
 */
function statistics(durations) {
  const ms = durations.sort((one, other) => one - other);
  const at = (/** @type {number} */ index) => /** @type {number} */ (ms[index]);
  const middle = Math.floor((ms.length - 1) / 2);
  return { count: ms.length, minMs: at(0), avgMs: rounded(sum(ms) / ms.length), p50Ms: at(middle), maxMs: at(ms.length - 1) };
}

/**
 * Time between the phases of a round in which none of them ran. Clocks of two machines are never compared: what the server measured of a
 * round and what this browser did are looked at apart. Times are whole milliseconds, so up to one of them is no gap.
 * @param {TrainingDebugEvent[]} events
 */
function idleStatistics(events) {
  const ofRounds = phasesOf(events).filter(({ round }) => typeof round === "number");
  const rounds = grouped(ofRounds, ({ from, jobId, round }) => JSON.stringify([from ?? null, jobId ?? null, round]));
  const gaps = [...rounds.values()].flatMap(gapsOf).filter((gap) => gap > 1);
  return { samples: gaps.length, totalMs: rounded(sum(gaps)), avgMs: gaps.length ? rounded(sum(gaps) / gaps.length) : 0 };
}

/** @param {Phase[]} phases */
function gapsOf(phases) {
  const spans = phases.map(({ end, ms }) => ({ start: end - ms, end })).sort((one, other) => one.start - other.start);
  let until = spans[0]?.end ?? 0;
  return spans.map(({ start, end }) => {
    const gap = start - until;
    until = Math.max(until, end);
    return gap;
  });
}

/** The finished ones, with the `end` of each in milliseconds. @param {TrainingDebugEvent[]} events @returns {Phase[]} */
function phasesOf(events) {
  return events
    .filter(({ event }) => event === PHASE_FINISHED)
    .map(({ at, details = {} }) => /** @type {Phase} */ ({ ...details, end: Date.parse(at) }))
    .filter(({ phase, ms }) => typeof phase === "string" && typeof ms === "number" && ms >= 0);
}

/** @template T @param {T[]} items @param {(item: T) => string} keyOf @returns {Map<string, T[]>} */
function grouped(items, keyOf) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

const sum = (/** @type {number[]} */ values) => values.reduce((total, value) => total + value, 0);
/** To microseconds. */
const rounded = (/** @type {number} */ value) => Math.floor(value * 1000 + 0.5) / 1000;
const isObject = (/** @type {unknown} */ value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {unknown} value @returns {unknown} */
function short(value) {
  if (typeof value === "string") return cut(masked(value), MAX_TEXT);
  if (typeof value !== "object" || value === null) return value;
  const text = JSON.stringify(value, (_, item) => (typeof item === "string" ? masked(item) : item));
  return [...text].length <= MAX_NESTED ? JSON.parse(text) : cut(text, MAX_TEXT);
}

/** @param {string} text */
const masked = (text) => text.replace(SECRET, (run) => (SHA256.test(run) ? run : "…"));

/** By characters, so that none is cut in two. @param {string} text @param {number} most */
function cut(text, most) {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most).join("")}…`;
}
