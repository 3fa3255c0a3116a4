// The metric chart: training and validation by checkpoint round, each metric on its own scale, gaps where nothing was measured.
import uPlot from "../vendor/uplot-1.6.32.esm.js";

const TONES = 6;

/** @typedef {{metric: string, label: string, direction: string, kind: "training" | "validation", values: Array<number | null>}} Series */
/** `check` is what the values of kind "validation" are called. @typedef {{rounds: number[], series: Series[], check: string}} ChartData */

/** @param {string} name of a custom property */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {number | null | undefined} value */
export const valueText = (value) => (value === null || value === undefined ? "—" : String(Number(value.toPrecision(4))));

/** An axis in the colours of the page. */
export function axisOf() {
  const line = { stroke: color("--line"), width: 1 };
  return { stroke: color("--muted"), grid: line, ticks: line, font: "12px system-ui" };
}

/** Metrics in the order they come, each with a colour for its two lines. @param {Series[]} series @returns {string[]} */
export const metricIds = (series) => [...new Set(series.map((line) => line.metric))];

/** @param {Series} line */
export const lineKey = (line) => `${line.metric} ${line.kind}`;

export class MetricChart {
  #host;
  #toggles;
  /** @type {uPlot | null} */ #plot = null;
  /** @type {Set<string>} lines that the person switched off */ #off = new Set();
  #shape = "";

  /** @param {HTMLElement} host @param {HTMLElement} toggles */
  constructor(host, toggles) {
    this.#host = host;
    this.#toggles = toggles;
    new ResizeObserver(() => this.#resize()).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.#shape = "";
      if (this.#last) this.draw(this.#last);
    });
  }

  /** @type {ChartData | null} */ #last = null;

  /** @param {ChartData} data */
  draw(data) {
    this.#last = data;
    const table = [data.rounds, ...data.series.map((line) => line.values)];
    const shape = data.series.map(lineKey).join("\n");
    if (this.#plot && shape === this.#shape) {
      this.#plot.setData(table);
      return;
    }
    this.#shape = shape;
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(data), table, this.#host);
    this.#renderToggles(data);
    this.#showValues();
  }

  #size() {
    const width = Math.max(240, this.#host.clientWidth);
    return { width, height: Math.round(Math.min(340, Math.max(220, width * 0.42))) };
  }

  #resize() {
    if (this.#plot && Math.abs(this.#plot.width - this.#size().width) > 1) this.#plot.setSize(this.#size());
  }

  /** @param {ChartData} data */
  #options({ series }) {
    const ids = metricIds(series);
    const axis = axisOf();
    /** @type {any} */
    const options = {
      ...this.#size(),
      scales: Object.fromEntries([["x", { time: false }], ...ids.map((id) => [`y-${id}`, {}])]),
      axes: [
        { ...axis, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : "")) },
        // Two scales can be read at once; a third metric keeps its own, without an axis.
        ...ids.slice(0, 2).map((id, index) => ({ ...axis, scale: `y-${id}`, side: index === 0 ? 3 : 1, size: 56, grid: index === 0 ? axis.grid : { show: false }, stroke: color(`--chart-${index + 1}`) })),
      ],
      series: [{ label: "Round" }, ...series.map((line) => this.#line(line, ids.indexOf(line.metric)))],
      legend: { show: false },
      hooks: { setCursor: [() => this.#showValues()], setData: [() => this.#showValues()] },
      cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    };
    return options;
  }

  /** @param {Series} line @param {number} index of its metric */
  #line(line, index) {
    return {
      label: `${line.label} (${line.kind})`,
      scale: `y-${line.metric}`,
      stroke: color(`--chart-${(index % TONES) + 1}`),
      width: line.kind === "training" ? 2 : 2.5,
      dash: line.kind === "training" ? [6, 5] : undefined,
      spanGaps: false,
      points: { show: line.values.length <= 60, size: 5 },
      show: !this.#off.has(lineKey(line)),
    };
  }

  /** @param {ChartData} data */
  #renderToggles({ series, check }) {
    const ids = metricIds(series);
    this.#toggles.replaceChildren(...series.map((line, index) => this.#toggle(line, index + 1, ids.indexOf(line.metric), check)));
  }

  /** @param {Series} line @param {number} seriesIndex @param {number} metricIndex @param {string} check */
  #toggle(line, seriesIndex, metricIndex, check) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !this.#off.has(lineKey(line));
    box.addEventListener("change", () => {
      if (box.checked) this.#off.delete(lineKey(line));
      else this.#off.add(lineKey(line));
      this.#plot?.setSeries(seriesIndex, { show: box.checked });
    });
    const value = document.createElement("output");
    const swatch = document.createElement("span");
    swatch.className = `swatch tone-${(metricIndex % TONES) + 1}${line.kind === "training" ? " dashed" : ""}`;
    const direction = document.createElement("span");
    direction.className = "muted";
    direction.textContent = line.direction === "maximize" ? "higher is better" : "lower is better";
    label.append(box, swatch, `${line.label}, ${line.kind === "training" ? "training" : check}`, direction, value);
    return label;
  }

  /** Beside each switch: the value under the pointer, else the newest one. */
  #showValues() {
    const data = this.#last;
    if (!data) return;
    const index = this.#plot?.cursor.idx ?? null;
    data.series.forEach((line, at) => {
      const output = this.#toggles.children[at]?.querySelector("output");
      const value = index === null ? line.values.findLast((one) => one !== null) : line.values[index];
      if (output) output.textContent = index === null ? valueText(value) : `${valueText(value)} (round ${data.rounds[index]})`;
    });
  }
}
