// What the card shows: made from the state of weei.js, or read from the server's fragment.
import { ageText, unitsText } from "../format.js";
import { compare, factsOf } from "./comparing.js";
import { rowOf } from "./cells.js";

/** @typedef {import("./cells.js").Row} Row */
/** @typedef {import("./cells.js").Entry} Entry */
/** @typedef {import("../../weei/weei.js").TrainingState} TrainingState */
/** `lines`: who differs in what. @typedef {{sentence: string, tone: string, lines: string[], rows: Row[]}} View */

const STALE_MS = 10_000;
/** States of people who do not take part. */
const AWAY = ["invited", "declined"];

/** The entry as it is some time after the state was given out. @param {Entry} entry @param {number} passedMs @returns {Entry} */
const later = (entry, passedMs) => ({ ...entry, ageMs: entry.ageMs + passedMs, stale: entry.stale || entry.ageMs + passedMs > STALE_MS });

/** Whether this page hears of participants by itself. @param {TrainingState} state @param {number} passedMs */
export const isLive = (state, passedMs) => Object.values(state.diagnostics).some((entry) => !later(entry, passedMs).stale);

/** @param {TrainingState} state with a job @param {number} passedMs since it was given out @returns {View} */
export function viewOf(state, passedMs) {
  const job = /** @type {import("../../weei/weei.js").TrainingJob} */ (state.job);
  const units = unitsText(job.info.workSource?.unit);
  const people = Object.entries(job.participants).filter(([, person]) => !AWAY.includes(person.state));
  const entries = new Map(Object.entries(state.diagnostics).map(([peer, entry]) => [peer, later(entry, passedMs)]));
  const told = people.flatMap(([peer]) => {
    const entry = entries.get(peer);
    return entry?.connected ? [/** @type {[string, Map<string, string>]} */ ([peer, factsOf(entry)])] : [];
  });
  const { sentence, tone, differing } = compare(new Map(told));
  const rows = people.map(([peerId, person]) => rowOf({ ...person, peerId }, entries.get(peerId), differing.get(peerId) ?? "", units));
  const lines = rows.filter(({ cells }) => cells["differs"]).map(({ cells }) => `${cells["name"]} (${cells["id"]}): ${cells["differs"]}`);
  return { sentence, tone, lines, rows };
}

/** What the server said, some time later. @param {View} view @param {number} passedMs @returns {View} */
export const aged = (view, passedMs) => ({ ...view, rows: view.rows.map((row) => agedRow(row, passedMs)) });

/** @param {Row} row @param {number} passedMs @returns {Row} */
function agedRow(row, passedMs) {
  if (row.age === null) return row;
  const age = row.age + passedMs;
  const wasLive = row.tones["fresh"] === "good";
  if (wasLive && age <= STALE_MS) return { ...row, age };
  const word = wasLive ? "Stale" : row.cells["fresh"]?.split(",")[0];
  return { ...row, age, cells: { ...row.cells, fresh: `${word}, ${ageText(age)} old` }, tones: { ...row.tones, fresh: "warn" } };
}

/** @param {ParentNode} root of the server's fragment @returns {View} */
export function readView(root) {
  const verdict = root.querySelector("[data-slot=verdict]");
  return {
    sentence: verdict?.textContent ?? "",
    tone: [...(verdict?.classList ?? [])].find((name) => name !== "note") ?? "",
    lines: [...root.querySelectorAll("[data-slot=lines] > li")].map((line) => line.textContent ?? ""),
    rows: [...root.querySelectorAll("tbody[data-peer]")].map((body) => readRow(/** @type {HTMLElement} */ (body))),
  };
}

/** @param {HTMLElement} body @returns {Row} */
function readRow(body) {
  const { peer = "", speed, age } = body.dataset;
  /** @type {Row} */
  const row = { peer, cells: {}, tones: {}, speed: speed ? Number(speed) : null, age: age ? Number(age) : null };
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll("[data-slot]"))) {
    const name = element.dataset["slot"] ?? "";
    row.cells[name] = element.textContent ?? "";
    if (element.dataset["tone"] !== undefined) row.tones[name] = element.dataset["tone"];
  }
  return row;
}
