// A chart that can be looked into: the drawing itself, its range, its crosshair and its tooltip.
import uPlot from "../vendor/uplot-1.6.32.esm.js";
import { layers, plotOptions, valueText } from "./chart_look.js";
import { indexesIn, nearest, panned, positive, smoothed, zoomed } from "./chart_math.js";
import { startGestures } from "./chart_gestures.js";

/** @typedef {import("./chart_look.js").Figure} Figure */
/** @typedef {import("./chart_look.js").Choices} Choices */
/** @typedef {import("./chart_math.js").Range} Range */

const SETTLED_MS = 200;

export class ChartView {
  #host;
  #onRange;
  #onPoint;
  /** @type {uPlot | null} */ #plot = null;
  /** @type {Figure | null} */ #figure = null;
  /** @type {Choices} */ #choices = { log: false, weight: 0, off: new Set() };
  /** @type {Range | null} what is looked at; null: everything, also what still comes */ #range = null;
  #shape = "";
  #drawing = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #settling = undefined;
  #tip = Object.assign(document.createElement("div"), { className: "chart-tip", hidden: true });

  /** @param {HTMLElement} host that can have the focus
   * @param {{onRange: () => void, onPoint: (index: number | null, byKey: boolean) => void}} delegate the range has come to rest; another point is looked at */
  constructor(host, { onRange, onPoint }) {
    this.#host = host;
    this.#onRange = onRange;
    this.#onPoint = onPoint;
    startGestures(host, this);
    new ResizeObserver(() => this.#resize()).observe(host);
    // The page's colours are drawn into the picture.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#again());
    document.addEventListener("weei:theme", () => this.#again());
  }

  get range() {
    return this.#range;
  }

  get plot() {
    return this.#plot;
  }

  /** Indexes of the first and the last point that is looked at. @returns {Range} */
  get indexes() {
    return indexesIn(this.#figure?.x ?? [], this.#range);
  }

  /** @param {Figure} figure @param {Choices} choices */
  draw(figure, choices) {
    if (this.#figure && this.#figure.axis !== figure.axis) this.#range = null;
    this.#figure = figure;
    this.#choices = choices;
    const shape = JSON.stringify([figure.axis, choices.log, choices.weight > 0, figure.lines.map(({ key, scale, tone }) => [key, scale, tone])]);
    const table = this.#table(figure, choices);
    this.#drawing = true;
    if (!this.#plot || shape !== this.#shape) {
      this.#shape = shape;
      this.#plot?.destroy();
      this.#plot = new uPlot(this.#options(figure, choices), table, this.#host);
      this.#plot.over.append(this.#tip);
    } else {
      this.#plot.setData(table, !this.#range);
      figure.lines.forEach(({ key }, at) => this.#show(at, !choices.off.has(key)));
    }
    if (this.#range) this.#plot.setScale("x", { min: this.#range[0], max: this.#range[1] });
    // uPlot answers in a microtask of its own.
    queueMicrotask(() => { this.#drawing = false; });
  }

  /** @param {number} at of the line @param {boolean} show */
  #show(at, show) {
    const count = layers(this.#choices);
    for (let layer = 0; layer < count; layer += 1) this.#plot?.setSeries(1 + at * count + layer, { show });
  }

  #again() {
    this.#shape = "";
    if (this.#figure) this.draw(this.#figure, this.#choices);
  }

  /** @param {Figure} figure @param {Choices} choices */
  #table({ x, lines }, { log, weight }) {
    const shown = lines.map(({ values }) => (log ? positive(values) : values));
    return [x, ...shown.flatMap((values) => (weight ? [values, smoothed(values, weight)] : [values]))];
  }

  /** @param {Figure} figure @param {Choices} choices */
  #options(figure, choices) {
    const withoutShift = (/** @type {unknown} */ _, /** @type {unknown} */ _target, /** @type {(event: MouseEvent) => void} */ handler) => (/** @type {MouseEvent} */ event) => {
      if (!event.shiftKey) handler(event);
    };
    return {
      ...plotOptions(figure, choices),
      ...this.#size(),
      hooks: { setScale: [(/** @type {uPlot} */ plot, /** @type {string} */ key) => key === "x" && this.#scaled(plot)], setCursor: [(/** @type {uPlot} */ plot) => this.#pointed(plot)] },
      cursor: { points: { size: 7 }, drag: { x: true, y: false, dist: 6 }, bind: { mousedown: withoutShift } },
    };
  }

  #size() {
    const width = Math.max(240, this.#host.clientWidth);
    return { width, height: Math.round(Math.min(360, Math.max(240, width * 0.42))) };
  }

  #resize() {
    if (this.#plot && Math.abs(this.#plot.width - this.#size().width) > 1) this.#plot.setSize(this.#size());
  }

  // --- range ---

  /** @returns {Range} */
  get #full() {
    const x = this.#figure?.x ?? [];
    return [x[0] ?? 0, x.at(-1) ?? 0];
  }

  /** @param {uPlot} plot */
  #scaled(plot) {
    const { min, max } = plot.scales["x"] ?? {};
    if (this.#drawing || typeof min !== "number" || typeof max !== "number") return;
    const [from, to] = this.#full;
    this.#range = min <= from && max >= to ? null : [min, max];
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#onRange(), SETTLED_MS);
  }

  /** @param {Range} range */
  look([min, max]) {
    this.#plot?.setScale("x", { min, max });
  }

  /** @param {number} factor below 1 comes closer @param {number} [at] pixels from the left of the drawing */
  zoom(factor, at) {
    const center = at === undefined ? undefined : this.#plot?.posToVal(at, "x");
    this.look(zoomed(this.#range ?? this.#full, factor, this.#full, center));
  }

  /** @param {number} part of what is looked at */
  pan(part) {
    if (this.#range) this.look(panned(this.#range, part, this.#full));
  }

  reset() {
    this.look(this.#full);
  }

  // --- crosshair ---

  /** To another point inside of what is looked at. @param {number} by */
  step(by) {
    const plot = this.#plot;
    const [first, last] = this.indexes;
    if (!plot || !this.#figure || last < first) return;
    const now = plot.cursor.idx ?? null;
    const index = now === null ? (by > 0 ? first : last) : Math.min(last, Math.max(first, now + by));
    plot.setCursor({ left: plot.valToPos(this.#figure.x[index] ?? 0, "x"), top: 20 });
    this.#onPoint(index, true);
  }

  leave() {
    this.#plot?.setCursor({ left: -10, top: -10 });
  }

  /** What stands at a point, in words. @param {number} index @returns {Array<{line: import("./chart_look.js").Line, value: string}>} */
  valuesAt(index) {
    const lines = this.#figure?.lines.filter(({ key }) => !this.#choices.off.has(key)) ?? [];
    return lines.map((line) => {
      const at = nearest(line.values, index);
      const round = line.rounds?.[at];
      return { line, value: `${valueText(line.values[at])}${round === undefined ? "" : ` (round ${round})`}` };
    });
  }

  /** @param {uPlot} plot */
  #pointed(plot) {
    const index = (plot.cursor.left ?? -1) < 0 ? null : (plot.cursor.idx ?? null);
    this.#tip.hidden = index === null;
    if (index !== null) {
      this.#tip.replaceChildren(...(this.#figure?.about(index) ?? []).map((text, at) => element(at ? "span" : "strong", text)), ...this.valuesAt(index).map(tipRow));
      const left = plot.cursor.left ?? 0;
      const right = left > plot.over.clientWidth / 2;
      this.#tip.style.left = right ? "" : `${left + 12}px`;
      this.#tip.style.right = right ? `${plot.over.clientWidth - left + 12}px` : "";
    }
    this.#onPoint(index, false);
  }
}

/** @param {string} name @param {string} text */
const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

/** @param {{line: import("./chart_look.js").Line, value: string}} row */
function tipRow({ line, value }) {
  const row = Object.assign(document.createElement("span"), { className: "chart-tip-row" });
  row.append(swatch(line), element("span", line.name), element("b", value));
  return row;
}

/** The line's colour and pattern as a small picture. @param {import("./chart_look.js").Line} line */
export function swatch(line) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  const stroke = document.createElementNS(space, "line");
  picture.setAttribute("class", `line-swatch tone-${line.tone}`);
  picture.setAttribute("aria-hidden", "true");
  picture.setAttribute("viewBox", "0 0 28 8");
  for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 4, y2: 4, stroke: "currentColor", "stroke-width": 3 })) stroke.setAttribute(name, String(value));
  if (line.dash) stroke.setAttribute("stroke-dasharray", line.dash.join(" "));
  picture.append(stroke);
  return picture;
}
