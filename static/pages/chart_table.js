// The chart as a table, for those who read it, and for those who hear it.
import { valueText } from "./chart_look.js";
import { countText } from "./format.js";
import { byId, setText } from "./dom.js";

const MOST_ROWS = 500;
const TIME = /^\d{4}-\d\d-\d\dT/;

/** @param {string | number | null} fact */
function factText(fact) {
  if (fact === null) return "—";
  if (typeof fact === "number") return countText(fact);
  return TIME.test(fact) ? new Date(fact).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : fact;
}

/** @param {"th" | "td"} name @param {string} text @param {"col" | "row" | ""} [scope] */
function cell(name, text, scope = "") {
  const made = Object.assign(document.createElement(name), { textContent: text });
  if (scope) made.setAttribute("scope", scope);
  if (scope !== "row") made.className = "number";
  return made;
}

/** @param {import("./chart_look.js").Figure} figure @param {readonly import("./chart_look.js").Line[]} lines @param {readonly [number, number]} indexes */
export function renderTable({ facts }, lines, [first, last]) {
  const from = Math.max(first, last - MOST_ROWS + 1);
  const head = document.createElement("tr");
  const heads = [...facts.heads, ...lines.map(({ name }) => name)];
  head.append(...heads.map((text) => cell("th", text, "col")));
  const rows = Array.from({ length: last - from + 1 }, (_, at) => {
    const row = document.createElement("tr");
    const texts = [...facts.cells(from + at).map(factText), ...lines.map(({ values }) => valueText(values[from + at]))];
    row.append(...texts.map((text, place) => (place ? cell("td", text) : cell("th", text, "row"))));
    return row;
  });
  byId("chart-table-head").replaceChildren(head);
  byId("chart-table-body").replaceChildren(...rows);
  setText("chart-table-note", from > first ? `The last ${MOST_ROWS} of ${countText(last - first + 1)} points in view; look closer to see the others, or save them as CSV.` : "");
}
