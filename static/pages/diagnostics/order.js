// In what order rows stand, and which of them are shown.

/** @typedef {import("./cells.js").Row} Row */
/** "" is as they joined. @typedef {"" | "name" | "mode" | "state" | "speed" | "age"} Key */
/** @typedef {{key: Key, descending: boolean}} Order */
/** @typedef {{find: string, state: string, differing: boolean}} Filter */

/** @param {string} a @param {string} b */
const byText = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** The rows in another list; those without the figure come last, whichever way. @param {Row[]} rows @param {Order} order */
export function ordered(rows, { key, descending }) {
  if (!key) return rows;
  const sign = descending ? -1 : 1;
  if (key === "speed" || key === "age") {
    return rows.toSorted((a, b) => {
      if (a[key] === null || b[key] === null) return Number(a[key] === null) - Number(b[key] === null);
      return sign * (a[key] - b[key]);
    });
  }
  return rows.toSorted((a, b) => sign * byText(a.cells[key] ?? "", b.cells[key] ?? "") || byText(a.cells["name"] ?? "", b.cells["name"] ?? ""));
}

/** @param {Row} row @param {Filter} filter */
export function matches({ cells }, { find, state, differing }) {
  const words = `${cells["name"]} ${cells["system"]} ${cells["id"]}`.toLowerCase();
  return words.includes(find.trim().toLowerCase()) && (!state || cells["state"] === state) && (!differing || Boolean(cells["differs"]));
}

/** The first press sorts names upwards and figures downwards. @param {Order} order @param {Key} key @returns {Order} */
export function pressed(order, key) {
  return order.key === key ? { key, descending: !order.descending } : { key, descending: key === "speed" || key === "age" };
}
