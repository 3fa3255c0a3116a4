// What the server says of a job's metrics (jobs/selectors/series.py), and what charts read out of it.
import { countText, secondsText } from "./format.js";

/** @typedef {{metric: string, label: string, direction: string, kind: "training" | "validation", values: Array<number | null>}} Series */
/** Lists have one entry for each of `rounds`; `check` is what the values of kind "validation" are called.
 * @typedef {{rounds: number[], series: Series[], check: string, times: number[], started: number | null, examples: number[], participants: Array<number | null>, unit: string, found: number}} ChartData */
/** @typedef {"round" | "time" | "examples"} Axis */

/** @param {Pick<Series, "metric" | "kind">} line */
export const lineKey = (line) => `${line.metric} ${line.kind}`;

/** @param {Series} line @param {string} check */
export const lineName = (line, check) => `${line.label}, ${line.kind === "training" ? "training" : check}`;

/** Whether the server left points out. @param {ChartData} data */
export const isThinned = (data) => data.found > data.rounds.length;

/** Seconds from the start of the job to each checkpoint. @param {ChartData} data */
export function elapsed({ times, started }) {
  const start = started ?? times[0] ?? 0;
  return times.map((time) => Math.max(0, time - start) / 1000);
}

/** Where the points stand. @param {ChartData} data @param {Axis} axis @returns {number[]} */
export const xOf = (data, axis) => (axis === "round" ? data.rounds : axis === "time" ? elapsed(data) : data.examples);

/** @param {Axis} axis @param {number} value */
export const xText = (axis, value) => (axis === "time" ? secondsText(value) : countText(Math.round(value)));

/** @param {Axis} axis @param {string} unit */
export const axisName = (axis, unit) => ({ round: "round", time: "time since the start", examples: `${unit} trained` })[axis];

/** Finer data of a part, in its place in the data of the whole. @param {ChartData} whole @param {ChartData} part @returns {ChartData} */
export function refined(whole, part) {
  const first = part.rounds[0];
  const last = part.rounds.at(-1);
  if (first === undefined || last === undefined) return whole;
  const from = whole.rounds.findIndex((round) => round >= first);
  const to = whole.rounds.findLastIndex((round) => round <= last);
  if (from < 0 || to < 0) return whole;
  /** @template T @param {T[]} before @param {T[]} fine @returns {T[]} */
  const put = (before, fine) => [...before.slice(0, from), ...fine, ...before.slice(to + 1)];
  const fine = new Map(part.series.map((line) => [lineKey(line), line.values]));
  const nothing = part.rounds.map(() => null);
  return {
    ...whole,
    rounds: put(whole.rounds, part.rounds),
    times: put(whole.times, part.times),
    examples: put(whole.examples, part.examples),
    participants: put(whole.participants, part.participants),
    series: whole.series.map((line) => ({ ...line, values: put(line.values, fine.get(lineKey(line)) ?? nothing) })),
  };
}

/** In the place of a chart that would be one dot. @param {ChartData} data */
export function onePointText({ rounds, series, check }) {
  if (!rounds.length || !series.length) return "The chart begins with the first round.";
  return `Only checkpoint ${rounds[0]} is there yet: ${series.map((line) => `${lineName(line, check)} ${line.values[0]?.toPrecision(4) ?? "—"}`).join("; ")}. The chart begins with the next round.`;
}
