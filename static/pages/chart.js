// The chart of a job's metrics: training and validation by checkpoint, each metric on its own scale.
import { axisName, elapsed, isThinned, lineKey, lineName, onePointText, refined, xOf, xText } from "./chart_data.js";
import { axisOf, color, valueText } from "./chart_look.js";
import { ChartPanel } from "./chart_panel.js";
import { byId, setText } from "./dom.js";
import { countText } from "./format.js";

export { axisOf, color, valueText };

/** @typedef {import("./chart_data.js").ChartData} ChartData */
/** @typedef {import("./chart_data.js").Axis} Axis */
/** @typedef {import("./chart_look.js").Figure} Figure */

const TONES = 6;

/** Metrics in the order they come. @param {import("./chart_data.js").Series[]} series @returns {string[]} */
const metricIds = (series) => [...new Set(series.map((line) => line.metric))];

/** @param {ChartData} data @returns {import("./chart_look.js").Line[]} */
function linesOf({ series, check }) {
  const ids = metricIds(series);
  return series.map((line) => ({
    key: lineKey(line),
    name: lineName(line, check),
    note: line.direction === "maximize" ? "higher is better" : "lower is better",
    direction: line.direction,
    scale: `y-${line.metric}`,
    tone: (ids.indexOf(line.metric) % TONES) + 1,
    dash: line.kind === "training" ? [6, 5] : undefined,
    width: line.kind === "training" ? 2 : 2.5,
    values: line.values,
  }));
}

/** @param {ChartData} data @param {Axis} axis @returns {Figure} */
export function figureOf(data, axis) {
  const { rounds, times, examples, participants, unit } = data;
  const seconds = elapsed(data);
  const who = (/** @type {number} */ index) => participants[index] ?? null;
  return {
    x: xOf(data, axis),
    axis,
    unit,
    lines: linesOf(data),
    about: (index) => {
      const count = who(index);
      return [
        `Round ${rounds[index]}`,
        `${new Date(times[index] ?? 0).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" })}, ${xText("time", seconds[index] ?? 0)} after the start`,
        `${countText(examples[index])} ${axisName("examples", unit)}${count === null ? "" : `, ${count} participant${count === 1 ? "" : "s"}`}`,
      ];
    },
    facts: {
      heads: ["Round", "Saved at", "Seconds since the start", `${unit.charAt(0).toUpperCase()}${unit.slice(1)} so far`, "Participants"],
      cells: (index) => [rounds[index] ?? null, new Date(times[index] ?? 0).toISOString(), Math.round((seconds[index] ?? 0) * 1000) / 1000, examples[index] ?? null, who(index)],
    },
  };
}

/** Fetches what the job page's chart shows, and for a part that is looked at the points that the whole leaves out. */
export class ChartFeed {
  #url = byId("chart").dataset["url"] ?? "";
  #panel = new ChartPanel({ title: byId("chart").dataset["title"] ?? "", figureOf: (axis) => this.#figure(axis), onRange: () => void this.#refine() });
  /** @type {ChartData | null} */ #whole = null;
  /** @type {ChartData | null} */ #part = null;
  /** @type {ChartData | null} what is drawn */ #data = null;
  #asked = "";
  #busy = false;
  #again = false;

  /** Hints that come while a request runs lead to one more. */
  async refresh() {
    this.#again = this.#busy;
    if (this.#busy) return;
    this.#busy = true;
    try {
      const data = await this.#fetch("");
      if (data) {
        this.#whole = data;
        this.#draw();
      }
    } catch {
      // The next hint or poll tries again.
    } finally {
      this.#busy = false;
      if (this.#again) void this.refresh();
    }
  }

  /** @param {string} query @returns {Promise<ChartData | null>} */
  async #fetch(query) {
    const response = await fetch(this.#url + query);
    return response.ok && !response.redirected ? response.json() : null;
  }

  #draw() {
    this.#data = this.#whole && this.#part ? refined(this.#whole, this.#part) : this.#whole;
    if (this.#data) setText("chart-empty", onePointText(this.#data));
    this.#panel.refresh();
  }

  /** @param {Axis} axis */
  #figure(axis) {
    const data = this.#data;
    return data && data.rounds.length > 1 && data.series.length ? figureOf(data, axis) : null;
  }

  /** The range that is looked at, and as much on both sides, so that a step aside needs no request. */
  async #refine() {
    const looked = this.#panel.looked;
    if (!looked || !this.#whole || !this.#data || !isThinned(this.#whole)) return;
    const [from, to] = [this.#data.rounds[looked[0]] ?? 0, this.#data.rounds[looked[1]] ?? 0];
    const side = to - from + 1;
    const query = `?first=${Math.max(this.#data.rounds[0] ?? 0, from - side)}&last=${to + side}`;
    if (query === this.#asked) return;
    this.#asked = query;
    try {
      const part = await this.#fetch(query);
      // Another range may have been asked for meanwhile.
      if (!part || query !== this.#asked) return;
      this.#part = part;
      this.#draw();
    } catch {
      this.#asked = "";
    }
  }
}
