// Live metrics as the table that uPlot draws: one column of times, one column of values for each participant.

/** @typedef {import("../weei/weei.js").LivePoint} LivePoint */
/** `times` in seconds. In a line `null` is a gap and `undefined` the time of another one's value.
 * @typedef {{times: number[], lines: Array<Array<number | null | undefined>>}} Table */

/** Longer than this without a value is a gap: a module reports several times while it trains, so this was no training. */
const GAP_MS = 10_000;

/** The points of one participant, with a gap wherever nothing was reported. @param {LivePoint[]} points @param {string} metric */
function withGaps(points, metric) {
  /** @type {Map<number, number | null>} */
  const found = new Map();
  let last = -Infinity;
  for (const { at, values } of points) {
    const value = values[metric];
    if (at - last > GAP_MS && found.size) found.set(last + 1, null);
    found.set(at, value ?? null);
    last = at;
  }
  return found;
}

/** @param {LivePoint[][]} series of those who are drawn @param {string} metric @returns {Table} */
export function tableOf(series, metric) {
  const columns = series.map((points) => withGaps(points, metric));
  const times = [...new Set(columns.flatMap((column) => [...column.keys()]))].toSorted((a, b) => a - b);
  return { times: times.map((at) => at / 1000), lines: columns.map((column) => times.map((at) => column.get(at))) };
}

/** The last value of a metric that a participant reported, if any. @param {LivePoint[]} points @param {string} metric */
export const lastValue = (points, metric) => points.findLast(({ values }) => values[metric] !== undefined)?.values[metric];
