// The comparison of jobs: one metric of all of them in one chart, their best and last values, and when they got there.
import { elapsed, isThinned, lineKey, lineName, xOf, xText } from "./chart_data.js";
import { valueText } from "./chart_look.js";
import { joined, reachedAt } from "./chart_math.js";
import { ChartPanel } from "./chart_panel.js";
import { byId, setText, show, showProblem } from "./dom.js";
import { countText, DASH, secondsText } from "./format.js";

/** @typedef {import("./chart_data.js").ChartData} ChartData */
/** @typedef {import("./chart_data.js").Series} Series */
/** @typedef {import("./chart_data.js").Axis} Axis */
/** @typedef {{id: string, name: string, url: string, tone: number, dash: number[] | undefined, data: ChartData}} Job */

/** Points before a hit in thinned data among which an earlier one may be: more than a bucket of the server holds. */
const BEFORE = 1500;
const TYPED_MS = 250;

const metric = /** @type {HTMLSelectElement} */ (byId("compare-metric"));
const goal = /** @type {HTMLInputElement} */ (byId("compare-goal"));
/** @type {Job[]} */
let jobs = [];
const panel = new ChartPanel({ title: "Comparison", figureOf });

/** @param {Job} job */
const seriesOf = ({ data }) => data.series.find((line) => lineKey(line) === metric.value);

/** The lines of all jobs over one axis. @param {Axis} axis @returns {import("./chart_look.js").Figure | null} */
function figureOf(axis) {
  const drawn = jobs.flatMap((job) => {
    const series = seriesOf(job);
    return series ? [{ job, series }] : [];
  });
  if (!drawn.length) return null;
  /** @type {Array<{x: number[], columns: Array<Array<number | null>>}>} */
  const tables = drawn.map(({ job, series }) => ({ x: xOf(job.data, axis), columns: [series.values, job.data.rounds] }));
  const { x, tables: spread } = joined(tables);
  const unit = jobs[0]?.data.unit ?? "examples";
  return {
    x,
    axis,
    unit,
    lines: drawn.map(({ job, series }, at) => ({
      key: job.id,
      name: job.name,
      note: "",
      direction: series.direction,
      scale: "y",
      tone: job.tone,
      dash: job.dash,
      width: 2.5,
      values: spread[at]?.[0] ?? [],
      ...(axis === "round" ? {} : { rounds: (spread[at]?.[1] ?? []).map((round) => round ?? undefined) }),
    })),
    about: (index) => [axis === "round" ? `Round ${x[index]}` : axis === "time" ? `${xText("time", x[index] ?? 0)} after the start` : `${countText(x[index])} ${unit} trained`],
    facts: { heads: [{ round: "Round", time: "Seconds since the start", examples: `${unit} trained` }[axis]], cells: (index) => [Math.round((x[index] ?? 0) * 1000) / 1000] },
  };
}

// --- best, last, and the goal ---

/** @param {Job} job @param {number} index */
const at = (job, index) => ({ round: job.data.rounds[index] ?? 0, seconds: elapsed(job.data)[index] ?? 0, examples: job.data.examples[index] ?? 0 });

/** Where the goal was reached first. What the server left out before that is asked for, so that the answer is exact.
 * @param {Job} job @param {Series} series @param {number} wanted */
async function reached(job, series, wanted) {
  const index = reachedAt(series.values, wanted, series.direction);
  if (index < 0) return null;
  if (!isThinned(job.data)) return at(job, index);
  const round = job.data.rounds[index] ?? 0;
  const part = await fetchData(`${job.url}?first=${Math.max(job.data.rounds[0] ?? 0, round - BEFORE)}&last=${round}`);
  const fine = { ...job, data: { ...part, started: part.started ?? job.data.times[0] ?? null } };
  const first = reachedAt(seriesOf(fine)?.values ?? [], wanted, series.direction);
  return first < 0 ? at(job, index) : at(fine, first);
}

let asked = 0;

async function renderBest() {
  const mine = (asked += 1);
  const wanted = goal.value === "" ? null : Number(goal.value);
  const rows = await Promise.all(jobs.map((job) => cellsOf(job, wanted)));
  if (mine !== asked) return;
  rows.forEach((texts, place) => {
    const cells = byId("compare-best").children[place]?.querySelectorAll("td") ?? [];
    texts.forEach((text, column) => { if (cells[column]) /** @type {Element} */ (cells[column]).textContent = text; });
  });
}

/** @param {Job} job @param {number | null} wanted */
async function cellsOf(job, wanted) {
  const series = seriesOf(job);
  if (!series) return [DASH, DASH, DASH, DASH, DASH];
  const measured = series.values.flatMap((value, index) => (value === null ? [] : [{ value, index }]));
  const better = (/** @type {number} */ a, /** @type {number} */ b) => (series.direction === "minimize" ? a < b : a > b);
  const best = measured.reduce((found, one) => (better(one.value, found.value) ? one : found));
  const last = /** @type {{value: number, index: number}} */ (measured.at(-1));
  const text = (/** @type {{value: number, index: number}} */ { value, index }) => `${valueText(value)} (round ${job.data.rounds[index]})`;
  if (wanted === null) return [text(best), text(last), DASH, DASH, DASH];
  const hit = await reached(job, series, wanted);
  return [text(best), text(last), ...(hit ? [countText(hit.round), secondsText(hit.seconds), countText(hit.examples)] : ["never", DASH, DASH])];
}

// --- choices, and the address that holds them ---

function renderChoices() {
  /** @type {Map<string, string>} */
  const found = new Map(jobs.flatMap(({ data }) => data.series.map((line) => /** @type {[string, string]} */ ([lineKey(line), lineName(line, data.check)]))));
  metric.replaceChildren(...[...found].map(([value, text]) => new Option(text, value)));
  const asked = new URLSearchParams(location.search);
  const wanted = asked.get("metric") ?? [...found.keys()].find((key) => key.endsWith(" validation"));
  if (wanted && found.has(wanted)) metric.value = wanted;
  const axis = /** @type {HTMLSelectElement} */ (byId("chart-axis"));
  if ([...axis.options].some(({ value }) => value === asked.get("axis"))) axis.value = asked.get("axis") ?? "round";
  goal.value = asked.get("goal") ?? "";
}

/** The address says what is shown; going back in the browser leaves the page. */
function keepInAddress() {
  const query = new URLSearchParams(jobs.map(({ id }) => ["job", id]));
  query.set("metric", metric.value);
  query.set("axis", panel.axis);
  if (goal.value) query.set("goal", goal.value);
  history.replaceState(null, "", `?${query}`);
  /** @type {HTMLInputElement} */ (byId("compare-link")).value = location.href;
}

function refresh() {
  const line = jobs.map(seriesOf).find(Boolean);
  setText("compare-goal-note", line ? `Type a value of ${metric.selectedOptions[0]?.text ?? ""} to see when each job reached it, or went ${line.direction === "minimize" ? "below" : "above"} it.` : "");
  panel.title = `${metric.selectedOptions[0]?.text ?? "Metrics"} of ${jobs.length} jobs`;
  panel.refresh();
  keepInAddress();
  void renderBest().catch((error) => showProblem("compare-problem", error));
}

// --- data ---

/** @param {string} url @returns {Promise<ChartData>} */
async function fetchData(url) {
  const response = await fetch(url);
  if (!response.ok || response.redirected) throw new Error("The metrics of a job could not be read; load the page again.");
  return response.json();
}

async function start() {
  const found = [...byId("compare-jobs").children].map((item) => /** @type {HTMLElement} */ (item).dataset);
  jobs = await Promise.all(found.map(async ({ id = "", name = "", url = "", tone = "1", dash = "" }) => ({ id, name, url, tone: Number(tone), dash: dash ? dash.split(" ").map(Number) : undefined, data: await fetchData(url) })));
  renderChoices();
  refresh();
  metric.addEventListener("input", refresh);
  byId("chart-axis").addEventListener("input", keepInAddress);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typed;
  goal.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(refresh, TYPED_MS);
  });
  byId("compare-all").addEventListener("input", (event) => showSame(/** @type {HTMLInputElement} */ (event.target).checked));
}

/** @param {boolean} all */
function showSame(all) {
  for (const row of document.querySelectorAll("#compare-facts [data-same]")) /** @type {HTMLElement} */ (row).hidden = !all;
  if (document.getElementById("compare-nothing")) show("compare-facts", all);
}

start().catch((error) => showProblem("compare-problem", error));
