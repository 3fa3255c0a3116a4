// The live chart: what modules report while a round runs, one line for each participant.
import uPlot from "../vendor/uplot-1.6.32.esm.js";
import { axisOf, color, valueText } from "./chart.js";
import { byId, setText } from "./dom.js";
import { lastValue, tableOf } from "./live_table.js";

/** @typedef {import("../weei/weei.js").TrainingState} TrainingState */
/** @typedef {{peer: string, name: string, points: import("../weei/weei.js").LivePoint[]}} Line */

const DRAW_MS = 1000;
/** Drawing may take this part of the time, so that a page with many participants stays quick. */
const SHARE = 20;
const MOST_LINES = 12;
const TONES = 6;
/** Lines that share a colour have another pattern. */
const PATTERNS = [
  { dash: undefined, style: "" },
  { dash: [8, 5], style: "dashed" },
];

/** @param {number} seconds since 1970 */
const timeText = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

export class LiveChart {
  #host = byId("live-chart");
  #legend = byId("live-legend");
  #choice = /** @type {HTMLSelectElement} */ (byId("live-metric"));
  /** @type {TrainingState | null} */ #state = null;
  /** @type {uPlot | null} */ #plot = null;
  #shape = "";
  #jobId;

  /** @param {string | undefined} jobId none: whatever job this browser takes part in */
  constructor(jobId) {
    this.#jobId = jobId;
  }

  start() {
    this.#choice.addEventListener("input", () => this.#redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
    document.addEventListener("weei:theme", () => this.#redraw());
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(this.#host);
    this.#later(DRAW_MS);
  }

  /** @param {TrainingState} state */
  accept(state) {
    this.#state = state;
  }

  /** @param {number} wait */
  #later(wait) {
    setTimeout(() => {
      const begun = performance.now();
      if (!document.hidden) this.#draw();
      this.#later(Math.max(DRAW_MS, SHARE * (performance.now() - begun)));
    }, wait);
  }

  #redraw() {
    this.#shape = "";
    this.#draw();
  }

  #draw() {
    const { job, liveMetrics } = this.#state ?? {};
    if (!job || !liveMetrics || (this.#jobId && job.id !== this.#jobId)) return;
    const all = Object.entries(job.participants).filter(([peer]) => liveMetrics[peer]?.length);
    byId("live").hidden = all.length === 0;
    if (!all.length) return;
    const lines = all.slice(0, MOST_LINES).map(([peer, { label }]) => ({ peer, name: `${label} (${peer.slice(0, 8)})`, points: liveMetrics[peer] ?? [] }));
    setText("live-note", all.length > lines.length ? `The first ${lines.length} of ${all.length} participants are drawn.` : "A gap: nothing was reported.");
    const metric = this.#metric(job.info.metrics);
    this.#plotLines(lines, metric);
    this.#showLegend(lines, metric);
  }

  /** The chosen one, else the first. @param {Array<{id: string, label: string}>} metrics of the model */
  #metric(metrics) {
    if ([...this.#choice.options].map((option) => option.value).join("\n") !== metrics.map(({ id }) => id).join("\n")) {
      this.#choice.replaceChildren(...metrics.map(({ id, label }) => new Option(label, id)));
    }
    return this.#choice.value;
  }

  /** @param {Line[]} lines @param {string} metric */
  #plotLines(lines, metric) {
    const { times, lines: columns } = tableOf(lines.map(({ points }) => points), metric);
    const shape = lines.map(({ peer }) => peer).join("\n");
    if (this.#plot && shape === this.#shape) return this.#plot.setData([times, ...columns]);
    this.#shape = shape;
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(lines), [times, ...columns], this.#host);
    return undefined;
  }

  #size() {
    return { width: Math.max(240, this.#host.clientWidth), height: 240 };
  }

  /** @param {Line[]} lines */
  #options(lines) {
    const axis = axisOf();
    return {
      ...this.#size(),
      axes: [{ ...axis, space: 80, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(timeText) }, { ...axis, size: 56 }],
      series: [{}, ...lines.map((line, index) => ({ label: line.name, stroke: color(`--chart-${(index % TONES) + 1}`), width: 2, dash: patternOf(index).dash, spanGaps: false, points: { show: false } }))],
      legend: { show: false },
      cursor: { show: false },
    };
  }

  /** The values in text: by themselves they say what the lines show. @param {Line[]} lines @param {string} metric */
  #showLegend(lines, metric) {
    const rows = lines.map(({ name, points }, index) => ({ name, value: valueText(lastValue(points, metric)), look: `swatch tone-${(index % TONES) + 1} ${patternOf(index).style}` }));
    while (this.#legend.children.length > rows.length) this.#legend.lastElementChild?.remove();
    rows.forEach(({ name, value, look }, index) => {
      const item = this.#legend.children[index] ?? this.#legend.appendChild(legendItem());
      const [swatch, label, figure] = item.children;
      if (swatch) swatch.className = look;
      if (label && label.textContent !== name) label.textContent = name;
      if (figure && figure.textContent !== value) figure.textContent = value;
    });
  }
}

/** @param {number} index */
const patternOf = (index) => /** @type {typeof PATTERNS[number]} */ (PATTERNS[Math.floor(index / TONES) % PATTERNS.length]);

function legendItem() {
  const item = document.createElement("li");
  item.append(document.createElement("span"), document.createElement("span"), document.createElement("strong"));
  return item;
}
