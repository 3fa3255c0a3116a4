// What charts compute: smoothing, scales, ranges, and how tables are put together. No page is needed for it.

/** null: not measured, a gap. undefined: this line has no point there, so nothing breaks. @typedef {number | null | undefined} Value */
/** @typedef {[from: number, to: number]} Range */

const LEAST_ZOOM = 1e-4;

/** Exponential moving average that does not begin at 0; a gap stays a gap and the average goes on behind it.
 * @param {readonly Value[]} values @param {number} weight of the past, from 0 (as measured) to below 1 @returns {Value[]} */
export function smoothed(values, weight) {
  let sum = 0;
  let share = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return value;
    sum = sum * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return sum / share;
  });
}

/** What a logarithmic scale can show: 0 and less become gaps. @param {readonly Value[]} values @returns {Value[]} */
export const positive = (values) => values.map((value) => (typeof value === "number" && value <= 0 ? null : value));

/** Points without a neighbour that a line could lead to: they are drawn as dots. @param {readonly Value[]} values @returns {number[]} */
export function isolated(values) {
  const points = values.flatMap((value, index) => (value === undefined ? [] : [{ value, index }]));
  const bare = (/** @type {number} */ at) => typeof points[at]?.value !== "number";
  return points.filter(({ value }, at) => typeof value === "number" && bare(at - 1) && bare(at + 1)).map(({ index }) => index);
}

/** The range around a centre, `factor` times as wide, inside of `full`.
 * @param {Range} range @param {number} factor below 1 comes closer @param {Range} full @param {number} [center] @returns {Range} */
export function zoomed([from, to], factor, full, center = (from + to) / 2) {
  const whole = full[1] - full[0];
  const width = Math.max(whole * LEAST_ZOOM, (to - from) * factor);
  if (width >= whole) return full;
  const start = center - ((center - from) / (to - from)) * width;
  return clamped([start, start + width], full);
}

/** Moved by a part of its own width. @param {Range} range @param {number} part @param {Range} full @returns {Range} */
export function panned([from, to], part, full) {
  const by = (to - from) * part;
  return clamped([from + by, to + by], full);
}

/** Of the same width, inside of `full`. @param {Range} range @param {Range} full @returns {Range} */
function clamped([from, to], full) {
  const start = Math.min(Math.max(from, full[0]), full[1] - (to - from));
  return [start, start + to - from];
}

/** First and last index of the points inside of a range; [0, -1] when there are none.
 * @param {readonly number[]} xs in ascending order @param {Range | null} range null: all @returns {Range} */
export function indexesIn(xs, range) {
  if (!range) return [0, xs.length - 1];
  const first = xs.findIndex((x) => x >= range[0]);
  const last = xs.findLastIndex((x) => x <= range[1]);
  return first < 0 || last < first ? [0, -1] : [first, last];
}

/** Where the line has a point: at the index, else at the nearest one. -1: nowhere. @param {readonly Value[]} values @param {number} index */
export function nearest(values, index) {
  for (let away = 0; away < values.length; away += 1) {
    if (values[index - away] !== undefined) return index - away;
    if (values[index + away] !== undefined) return index + away;
  }
  return -1;
}

/** Lines with x values of their own over the union of all of them. @template T
 * @param {ReadonlyArray<{x: readonly number[], columns: ReadonlyArray<readonly T[]>}>} tables
 * @returns {{x: number[], tables: Array<Array<Array<T | undefined>>>}} the columns of each table */
export function joined(tables) {
  const x = [...new Set(tables.flatMap((table) => table.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, index) => [value, index]));
  const spread = (/** @type {readonly number[]} */ own, /** @type {readonly T[]} */ column) => {
    /** @type {Array<T | undefined>} */
    const found = Array.from({ length: x.length }, () => undefined);
    own.forEach((value, index) => { found[/** @type {number} */ (place.get(value))] = column[index]; });
    return found;
  };
  return { x, tables: tables.map((table) => table.columns.map((column) => spread(table.x, column))) };
}

/** What a line says in words. @param {readonly Value[]} values @param {Range} indexes @returns {{count: number, first: number, last: number, lowest: number, highest: number} | null} indexes; null: nothing was measured */
export function extremes(values, [from, to]) {
  let lowest = -1;
  let highest = -1;
  let first = -1;
  let last = -1;
  let count = 0;
  for (let index = from; index <= to; index += 1) {
    const value = values[index];
    if (typeof value !== "number") continue;
    count += 1;
    if (first < 0) first = index;
    last = index;
    if (lowest < 0 || value < /** @type {number} */ (values[lowest])) lowest = index;
    if (highest < 0 || value > /** @type {number} */ (values[highest])) highest = index;
  }
  return count ? { count, first, last, lowest, highest } : null;
}

/** The first index at which the goal is reached, or -1. @param {readonly Value[]} values @param {number} goal @param {string} direction "minimize" or "maximize" */
export const reachedAt = (values, goal, direction) => values.findIndex((value) => typeof value === "number" && (direction === "minimize" ? value <= goal : value >= goal));
