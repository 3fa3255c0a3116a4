/**
 * Strict JSON of a module's results: the same verdicts as weei_core/strict_json.py, so that a module is not accepted here and refused there.
 */
const MOST_LEVELS = 32;
/** A lone surrogate has no UTF-8 form; a NUL cannot be stored by the database. */
const UNSTORABLE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]|\0/;
const STRING_AND_COLON = /"(?:[^"\\]|\\.)*"\s*(:?)/g;

/**
 * Counts keys, and refuses what JSON.parse lets through: too deep, numbers that are not finite, text that is not text.
 * @param {unknown} value @param {number} level @returns {number} keys in all objects of the value
 */
function countKeys(value, level) {
  if (typeof value === "string") return checkText(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw new SyntaxError("a number is out of range");
  if (typeof value !== "object" || value === null) return 0;
  if (level >= MOST_LEVELS) throw new SyntaxError(`it is nested deeper than ${MOST_LEVELS} levels`);
  if (Array.isArray(value)) return value.reduce((sum, item) => sum + countKeys(item, level + 1), 0);
  const entries = Object.entries(value);
  return entries.reduce((sum, [key, item]) => sum + 1 + checkText(key) + countKeys(item, level + 1), 0);
}

/** @param {string} text */
function checkText(text) {
  if (UNSTORABLE.test(text)) throw new SyntaxError("text holds a lone surrogate or NUL");
  return 0;
}

/** @param {Uint8Array} bytes @returns {unknown} */
export function parseStrict(bytes) {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  const value = JSON.parse(text);
  const keys = countKeys(value, 0);
  let written = 0;
  for (const [, colon] of text.matchAll(STRING_AND_COLON)) if (colon) written += 1;
  if (written !== keys) throw new SyntaxError("an object has the same key twice");
  return value;
}
