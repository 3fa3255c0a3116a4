/** Compares values with the founding text's interfaces (tests/golden/state.json). Twin of tests/api/interfaces.py. */
import { readFileSync } from "node:fs";

export const golden = JSON.parse(readFileSync(new URL("../golden/state.json", import.meta.url), "utf8"));

/** Fields of an interface, as programs see it or (`wire`) as the server sends it. @param {string} name @param {boolean} [wire] @returns {Record<string, any>} */
export function fieldsOf(name, wire = false) {
  const all = { ...golden.founding[name], ...golden.ours[name], ...(wire ? golden.wire[name] : {}) };
  return Object.fromEntries(Object.entries(all).filter(([, kind]) => kind !== null));
}

const isNumber = (/** @type {unknown} */ value) => typeof value === "number" && Number.isFinite(value);
const isCount = (/** @type {any} */ value) => Number.isInteger(value) && value >= 0;
const isDuration = (/** @type {any} */ value) => isNumber(value) && value >= 0;

/** @type {Record<string, (value: any) => boolean>} */
const SCALARS = {
  text: (value) => typeof value === "string",
  flag: (value) => typeof value === "boolean",
  true: (value) => value === true,
  number: isNumber,
  count: isCount,
  bytes: isCount,
  ms: isDuration,
  seconds: isDuration,
  epochMs: (value) => isNumber(value) && value >= 1e12 && value < 1e13,
  sha256: (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value),
};

const isObject = (/** @type {unknown} */ value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** What does not fit, as sentences. @param {any} value @param {any} kind @param {{wire?: boolean, at?: string}} [options] @returns {string[]} */
export function differences(value, kind, { wire = false, at = "" } = {}) {
  if (typeof kind === "string") {
    if (SCALARS[kind]) return SCALARS[kind](value) ? [] : [`${at}: ${JSON.stringify(value)} is no ${kind}`];
    return golden.elsewhere.includes(kind) ? [] : objectDifferences(value, kind, wire, at);
  }
  const [[rule, inner]] = /** @type {[[string, any]]} */ (Object.entries(kind));
  if (rule === "oneOf") return inner.includes(value) ? [] : [`${at}: ${JSON.stringify(value)} is none of ${inner}`];
  if (rule === "maybe") return value === null ? [] : differences(value, inner, { wire, at });
  if (rule === "byKey" ? !isObject(value) : !Array.isArray(value)) return [`${at}: ${JSON.stringify(value)} is no ${rule}`];
  const kindOf = (/** @type {string} */ key) => (rule === "pair" ? inner[Number(key)] : inner);
  return Object.entries(value).flatMap(([key, item]) => differences(item, kindOf(key), { wire, at: `${at}[${key}]` }));
}

/** @param {any} value @param {string} name @param {boolean} wire @param {string} at @returns {string[]} */
function objectDifferences(value, name, wire, at) {
  if (!isObject(value)) return [`${at}: ${JSON.stringify(value)} is no ${name}`];
  const fields = Object.entries(fieldsOf(name, wire));
  const known = new Map(fields.map(([field, kind]) => [field.replace(/\?$/, ""), kind]));
  const missing = fields.filter(([field]) => !field.endsWith("?") && !(field in value)).map(([field]) => `${at}.${field}: missing`);
  const unknown = Object.keys(value).filter((field) => !known.has(field)).map((field) => `${at}.${field}: not in ${name}`);
  const inner = Object.entries(value).filter(([field]) => known.has(field));
  return [...missing, ...unknown, ...inner.flatMap(([field, item]) => differences(item, known.get(field), { wire, at: `${at}.${field}` }))];
}
