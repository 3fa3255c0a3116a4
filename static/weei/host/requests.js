/**
 * The text of every request: compact JSON, keys in the ABI's order, absent options left out. Results depend on these bytes, so each host
 * writes the same ones; `settings` passes as the server wrote it.
 */

/** @typedef {{pointer: number, bytes: number}} Range */
/**
 * One assignment in the form that decides its result.
 * @typedef {{settings: string, round: number, seed?: string, format?: string, recordStart?: number, recordCount?: number,
 *   experience?: {seed: string, unitStart: number, unitCount: number}}} Work
 */

/** @param {Range} range */
function rangeText(range) {
  return `{"pointer":${range.pointer},"bytes":${range.bytes}}`;
}

/** @param {Pick<Work, "format" | "recordStart" | "recordCount">} work @param {Range} placed */
function dataText({ format, recordStart, recordCount }, placed) {
  return JSON.stringify({ pointer: placed.pointer, bytes: placed.bytes, format, recordStart, recordCount });
}

/** @param {Work} work @param {Range | null} placed */
function source({ experience, ...work }, placed) {
  const parts = [];
  if (placed) parts.push(`"data":${dataText(work, placed)}`);
  if (experience) {
    const { seed, unitStart, unitCount } = experience;
    parts.push(`"experience":${JSON.stringify({ seed, unitStart, unitCount })}`);
  }
  return [...parts, `"settings":${work.settings}`];
}

/** @param {Range} weights */
export function weightsRequest(weights) {
  return `{"weights":${rangeText(weights)}}`;
}

/** @param {string} id @param {Range} weights */
export function auxiliaryRequest(id, weights) {
  return `{"id":${JSON.stringify(id)},"weights":${rangeText(weights)}}`;
}

/** @param {Pick<Work, "format" | "recordStart" | "recordCount">} part @param {Range} placed */
export function inspectRequest(part, placed) {
  return `{"data":${dataText(part, placed)}}`;
}

/** @param {object} input */
export function predictRequest(input) {
  return `{"input":${JSON.stringify(input)}}`;
}

/** @param {Work} work @param {Range | null} placed */
export function trainRequest(work, placed) {
  const parts = [...source(work, placed), `"round":${work.round}`];
  if (!work.experience) parts.push(`"seed":${JSON.stringify(work.seed)}`);
  return `{${parts.join(",")}}`;
}

/** @param {Work} work @param {Range | null} placed */
export function evaluateRequest(work, placed) {
  return `{${source(work, placed).join(",")}}`;
}
