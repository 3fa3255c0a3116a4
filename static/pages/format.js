// Figures as text, with the same words as the server's filters (jobs/templatetags/weei.py). Missing is a dash, never 0.
export const DASH = "—";

/** @param {unknown} value @returns {value is number} */
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** @param {unknown} value */
export const shown = (value) =>
  value === undefined || value === null || value === "" || value === "unknown" ? DASH : String(value);

/** @param {unknown} value */
export function bytesText(value) {
  if (!isNumber(value)) return DASH;
  if (value < 1024) return `${value} B`;
  let size = value;
  let unit = "B";
  for (unit of ["KiB", "MiB", "GiB", "TiB"]) {
    size /= 1024;
    if (size < 1024) break;
  }
  return `${size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${unit}`;
}

/** @param {unknown} value */
export const countText = (value) => (isNumber(value) ? value.toLocaleString("en") : DASH);

/** @param {unknown} value examples per second */
export const speedText = (value) =>
  isNumber(value) ? `${value >= 10 ? Math.round(value).toLocaleString("en") : value.toFixed(1)}/s` : DASH;

/** Whole seconds: "1 min 30 s". @param {number} whole */
function wholeText(whole) {
  const parts = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor((whole % 86_400) / 3_600), "h"],
    [Math.floor((whole % 3_600) / 60), "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount);
  if (first < 0) return "0 s";
  const shown = parts.slice(first, first + 2).filter(([amount]) => amount);
  return shown.map(([amount, unit]) => `${amount} ${unit}`).join(" ");
}

/** @param {unknown} value seconds */
export const secondsText = (value) => (isNumber(value) ? wholeText(Math.max(0, Math.round(value))) : DASH);

/** Under ten seconds with one decimal. @param {unknown} milliseconds */
export function durationText(milliseconds) {
  if (!isNumber(milliseconds)) return DASH;
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return milliseconds < 10_000 ? `${(milliseconds / 1000).toFixed(1)} s` : wholeText(Math.round(milliseconds / 1000));
}

/** How old figures are, or how long something will take. @param {number} milliseconds */
export const ageText = (milliseconds) => wholeText(Math.floor(Math.max(0, milliseconds) / 1000));

/** The model's own unit inside a sentence; an abbreviation keeps its capitals. @param {{label: string} | null | undefined} unit null: a dataset job */
export function unitsText(unit) {
  const label = unit?.label ?? "Examples";
  const abbreviated = label.slice(0, 2) === label.slice(0, 2).toUpperCase();
  return abbreviated ? label : label.slice(0, 1).toLowerCase() + label.slice(1);
}

/** An assignment's item: a chunk's name, or a range of units with its last one. @param {unknown} chunkId @param {{label: string} | null | undefined} unit */
export function partText(chunkId, unit) {
  const range = unit ? /^units-(\d+)-(\d+)$/.exec(String(chunkId)) : null;
  return range ? `${unitsText(unit)} ${countText(Number(range[1]))}–${countText(Number(range[2]) - 1)}` : shown(chunkId);
}
