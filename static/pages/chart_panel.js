// A chart with everything around it (templates/jobs/_chart.html): legend, choices, files, table, and what is read out.
import { csvText, download, fileName } from "./chart_csv.js";
import { axisName, xText } from "./chart_data.js";
import { CLOSER } from "./chart_gestures.js";
import { valueText } from "./chart_look.js";
import { extremes } from "./chart_math.js";
import { picture } from "./chart_png.js";
import { renderTable } from "./chart_table.js";
import { ChartView, swatch } from "./chart_view.js";
import { byId, run, setText, show } from "./dom.js";

/** @typedef {import("./chart_look.js").Figure} Figure */
/** @typedef {import("./chart_look.js").Line} Line */
/** @typedef {import("./chart_data.js").Axis} Axis */

const SAID_MS = 400;

export class ChartPanel {
  /** Names the picture and the files. */ title;
  #figureOf;
  #view;
  /** @type {Set<string>} keys of lines that the person switched off */ #off = new Set();
  /** @type {Figure | null} */ #figure = null;
  /** @type {number | null} */ #pointed = null;
  #legend = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #saying = undefined;

  /** @param {{title: string, figureOf: (axis: Axis) => Figure | null, onRange?: () => void}} page `figureOf` is asked at every refresh; null: nothing to draw */
  constructor({ title, figureOf, onRange }) {
    this.title = title;
    this.#figureOf = figureOf;
    this.#view = new ChartView(byId("chart"), {
      onRange: () => {
        this.#showRange();
        onRange?.();
      },
      onPoint: (index, byKey) => this.#showPoint(index, byKey),
    });
    this.#wire();
  }

  get axis() {
    return /** @type {Axis} */ (/** @type {HTMLSelectElement} */ (byId("chart-axis")).value);
  }

  /** Indexes of the points that are looked at, or null for all of them. @returns {[number, number] | null} */
  get looked() {
    return this.#view.range && this.#view.indexes;
  }

  refresh() {
    const figure = this.#figureOf(this.axis);
    this.#figure = figure;
    for (const id of ["chart", "chart-toggles", "chart-controls", "chart-table"]) show(id, Boolean(figure));
    show("chart-empty", !figure);
    if (!figure) return;
    this.#view.draw(figure, { log: this.#checked("chart-log"), weight: this.#weight, off: this.#off });
    this.#renderLegend(figure);
    this.#showPoint(this.#pointed, false);
    this.#showRange(false);
    this.#showNote(figure);
  }

  get #weight() {
    return Number(/** @type {HTMLInputElement} */ (byId("chart-smoothing")).value);
  }

  /** @param {string} id */
  #checked(id) {
    return /** @type {HTMLInputElement} */ (byId(id)).checked;
  }

  #wire() {
    /** @type {Record<string, () => void>} */
    const buttons = {
      "chart-closer": () => this.#view.zoom(CLOSER),
      "chart-farther": () => this.#view.zoom(1 / CLOSER),
      "chart-left": () => this.#view.pan(-0.5),
      "chart-right": () => this.#view.pan(0.5),
      "chart-reset": () => this.#view.reset(),
      "chart-csv": () => this.#saveCsv(),
    };
    for (const [id, action] of Object.entries(buttons)) byId(id).addEventListener("click", action);
    const png = /** @type {HTMLButtonElement} */ (byId("chart-png"));
    png.addEventListener("click", () => void run(png, "chart-problem", () => this.#savePng()));
    for (const id of ["chart-axis", "chart-log", "chart-smoothing"]) byId(id).addEventListener("input", () => this.refresh());
    byId("chart-smoothing").addEventListener("input", () => setText("chart-smoothing-value", this.#weight ? this.#weight.toFixed(2) : "off"));
    byId("chart-table").addEventListener("toggle", () => this.#renderTable());
  }

  // --- legend ---

  /** @param {Figure} figure */
  #renderLegend({ lines }) {
    const shape = JSON.stringify(lines.map(({ key, name, tone, dash }) => [key, name, tone, dash]));
    if (shape === this.#legend) return;
    this.#legend = shape;
    byId("chart-toggles").replaceChildren(...lines.map((line) => this.#toggle(line)));
  }

  /** @param {Line} line */
  #toggle(line) {
    const label = document.createElement("label");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !this.#off.has(line.key) });
    box.addEventListener("change", () => {
      if (box.checked) this.#off.delete(line.key);
      else this.#off.add(line.key);
      this.refresh();
    });
    const note = Object.assign(document.createElement("span"), { className: "muted", textContent: line.note });
    label.append(box, swatch(line), line.name, ...(line.note ? [note] : []), document.createElement("output"));
    return label;
  }

  get #lines() {
    return this.#figure?.lines.filter(({ key }) => !this.#off.has(key)) ?? [];
  }

  /** Beside each switch: the value under the crosshair, else the newest one. @param {number | null} index @param {boolean} byKey */
  #showPoint(index, byKey) {
    this.#pointed = index;
    const figure = this.#figure;
    if (!figure) return;
    const at = index !== null && index < figure.x.length ? index : null;
    const texts = at === null ? null : new Map(this.#view.valuesAt(at).map(({ line, value }) => [line.key, value]));
    figure.lines.forEach((line, place) => {
      const output = byId("chart-toggles").children[place]?.querySelector("output");
      const text = texts ? (texts.get(line.key) ?? "") : valueText(line.values.findLast((value) => typeof value === "number"));
      if (output && output.textContent !== text) output.textContent = text;
    });
    if (byKey && at !== null) setText("chart-said", [...figure.about(at), ...this.#view.valuesAt(at).map(({ line, value }) => `${line.name}: ${value}`)].join("; "));
  }

  // --- what is looked at, in words ---

  #showRange(aloud = true) {
    const figure = this.#figure;
    if (!figure) return;
    const [first, last] = this.#view.indexes;
    // Of a part the range itself: points that the server left out at first may come to stand at its ends.
    const [from, to] = this.#view.range ?? [figure.x[first] ?? 0, figure.x[last] ?? 0];
    const ends = figure.axis === "round" ? [Math.ceil(from), Math.floor(to)] : [from, to];
    const [begin, end] = ends.map((x) => xText(figure.axis, x));
    const range = last < first ? "no point is in view" : `${axisName(figure.axis, figure.unit)} ${begin} to ${end}`;
    const text = range.charAt(0).toUpperCase() + range.slice(1);
    setText("chart-range", this.#view.range ? text : "");
    for (const id of ["chart-left", "chart-right", "chart-reset"]) /** @type {HTMLButtonElement} */ (byId(id)).disabled = !this.#view.range;
    setText("chart-summary", [`${text}.`, ...this.#lines.map((line) => this.#sentence(figure, line))].join(" "));
    this.#renderTable();
    if (!aloud) return;
    clearTimeout(this.#saying);
    this.#saying = setTimeout(() => setText("chart-said", this.#view.range ? text : `Everything: ${range}`), SAID_MS);
  }

  /** @param {Figure} figure @param {Line} line */
  #sentence(figure, line) {
    const found = extremes(line.values, this.#view.indexes);
    if (!found) return `${line.name}: not measured here.`;
    const value = (/** @type {number} */ index) => valueText(line.values[index]);
    const at = (/** @type {number} */ index) => figure.about(index)[0]?.toLowerCase() ?? "";
    return `${line.name}: from ${value(found.first)} to ${value(found.last)}, lowest ${value(found.lowest)} (${at(found.lowest)}), highest ${value(found.highest)} (${at(found.highest)}).`;
  }

  /** @param {Figure} figure */
  #showNote(figure) {
    const hidden = this.#checked("chart-log") ? this.#lines.reduce((sum, { values }) => sum + values.filter((value) => typeof value === "number" && value <= 0).length, 0) : 0;
    const notes = [
      hidden ? `${hidden} value${hidden === 1 ? "" : "s"} of 0 or less cannot stand on a logarithmic scale.` : "",
      this.#weight ? `The bold lines are smoothed; the faint ones are as measured.` : "",
      figure.lines.length > 1 && new Set(figure.lines.map(({ scale }) => scale)).size > 2 ? "From the third metric on, a line has a scale of its own without an axis." : "",
    ];
    setText("chart-note", notes.filter(Boolean).join(" "));
  }

  // --- table and files: what is looked at, of the lines that are on ---

  #renderTable() {
    const details = /** @type {HTMLDetailsElement} */ (byId("chart-table"));
    if (details.open && this.#figure) renderTable(this.#figure, this.#lines, this.#view.indexes);
  }

  #saveCsv() {
    const figure = this.#figure;
    if (!figure) return;
    const [first, last] = this.#view.indexes;
    const rows = Array.from({ length: last - first + 1 }, (_, at) => [...figure.facts.cells(first + at), ...this.#lines.map(({ values }) => values[first + at])]);
    const text = csvText([[...figure.facts.heads, ...this.#lines.map(({ name }) => name)], ...rows]);
    download(new Blob([text], { type: "text/csv;charset=utf-8" }), fileName(this.title, "csv"));
  }

  async #savePng() {
    const { plot } = this.#view;
    if (!plot || !this.#figure) throw new Error("There is nothing to draw yet.");
    const range = byId("chart-range").textContent;
    const note = [range || `By ${axisName(this.axis, this.#figure.unit)}`, this.#weight ? `smoothed ${this.#weight.toFixed(2)}` : "", this.#checked("chart-log") ? "logarithmic scale" : ""];
    this.#view.leave();
    download(await picture(plot, { title: this.title, note: note.filter(Boolean).join(" · "), lines: this.#lines }), fileName(this.title, "png"));
  }
}
