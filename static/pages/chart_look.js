// How charts look: colours of the page, axes, and what uPlot is told of scales and lines.
import { isolated } from "./chart_math.js";
import { xText } from "./chart_data.js";

/** @typedef {import("./chart_math.js").Value} Value */
/** One line of a chart. `rounds` are those of its points where several lines share an axis that counts something else.
 * @typedef {{key: string, name: string, note: string, direction: string, scale: string, tone: number, dash: number[] | undefined, width: number, values: Value[], rounds?: Array<number | undefined>}} Line */
/** What is drawn. `about` says of a point what belongs to all lines; `facts` are the leading columns of its table.
 * @typedef {{x: number[], axis: import("./chart_data.js").Axis, unit: string, lines: Line[], about: (index: number) => string[], facts: {heads: string[], cells: (index: number) => Array<string | number | null>}}} Figure */
/** @typedef {{log: boolean, weight: number, off: ReadonlySet<string>}} Choices weight of the past in smoothing, 0: none */

const MOST_DOTS = 60;
const FAINT = 0.3;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];

/** @param {string} name of a custom property */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {number} tone from 1 */
export const toneColor = (tone) => color(`--chart-${tone}`);

/** @param {number | null | undefined} value */
export const valueText = (value) => (value === null || value === undefined ? "—" : String(Number(value.toPrecision(4))));

/** An axis in the colours of the page. */
export function axisOf() {
  const line = { stroke: color("--line"), width: 1 };
  return { stroke: color("--muted"), grid: line, ticks: line, font: "12px system-ui" };
}

/** @param {Figure} figure */
function xAxis({ axis }) {
  const text = (/** @type {number} */ tick) => (axis === "time" && tick < 10 && !Number.isInteger(tick) ? `${tick.toFixed(1)} s` : axis === "round" && !Number.isInteger(tick) ? "" : xText(axis, tick));
  const steps = axis === "time" ? { incrs: STEPS } : {};
  return { ...axisOf(), ...steps, size: 34, space: axis === "round" ? 50 : 80, values: (/** @type {unknown} */ _, /** @type {number[]} */ ticks) => ticks.map(text) };
}

/** Pixels beside the drawing that the longest label needs. @param {unknown} _ @param {readonly string[] | null} labels */
const roomFor = (_, labels) => 20 + 7 * Math.max(4, ...(labels ?? []).map((label) => label.length));

/** Two scales can be read at once; a third one is used without an axis. @param {Figure} figure */
function yAxes({ lines }) {
  const scales = [...new Set(lines.map((line) => line.scale))];
  const axis = axisOf();
  return scales.slice(0, 2).map((scale, index) => ({
    ...axis,
    scale,
    side: index === 0 ? 3 : 1,
    size: roomFor,
    grid: index === 0 ? axis.grid : { show: false },
    stroke: scales.length > 1 ? toneColor(lines.find((line) => line.scale === scale)?.tone ?? 1) : axis.stroke,
    values: (/** @type {unknown} */ _, /** @type {Array<number | null>} */ ticks) => ticks.map((tick) => (tick === null ? "" : valueText(tick))),
  }));
}

/** Dots for all points of a short line; on a long one only for those that no line leads to. */
const dots = {
  show: true,
  size: 5,
  filter: (/** @type {any} */ plot, /** @type {number} */ index) => {
    const values = /** @type {Value[]} */ (plot.data[index]);
    return values.length > MOST_DOTS ? isolated(values) : values.flatMap((value, at) => (typeof value === "number" ? [at] : []));
  },
};

/** @param {Line} line @param {Choices} choices */
function seriesOf(line, { weight, off }) {
  const common = { label: line.name, scale: line.scale, stroke: toneColor(line.tone), width: line.width, dash: line.dash, spanGaps: false, show: !off.has(line.key) };
  const filled = { ...dots, fill: common.stroke };
  return weight ? [{ ...common, points: filled, alpha: FAINT, width: 1, dash: undefined }, { ...common, points: filled }] : [{ ...common, points: filled }];
}

/** Lines of uPlot for each line of the figure: with smoothing the values as measured and the average. @param {Choices} choices */
export const layers = ({ weight }) => (weight ? 2 : 1);

/** @param {Figure} figure @param {Choices} choices @returns {object} */
export function plotOptions(figure, choices) {
  const distr = choices.log ? 3 : 1;
  return {
    scales: Object.fromEntries([["x", { time: false }], ...figure.lines.map((line) => [line.scale, { distr }])]),
    axes: [xAxis(figure), ...yAxes(figure)],
    series: [{}, ...figure.lines.flatMap((line) => seriesOf(line, choices))],
    legend: { show: false },
  };
}
