// A table as a CSV file (RFC 4180) that no spreadsheet takes for a formula.
const FORMULA = /^[=+\-@\t\r]/;

/** @param {string | number | null | undefined} cell missing is empty, never 0 */
function cellText(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {ReadonlyArray<ReadonlyArray<string | number | null | undefined>>} rows the first one are the heads */
export const csvText = (rows) => rows.map((row) => `${row.map(cellText).join(",")}\r\n`).join("");

/** A name that every file system takes. @param {string} name @param {string} ending */
export const fileName = (name, ending) => `${name.replace(/[^\p{L}\p{N}._ -]+/gu, "-").trim().slice(0, 80) || "chart"}.${ending}`;

/** Gives the person a file. @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
