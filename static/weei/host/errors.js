/** What a host says when a module, or the machine under it, does not do its part. */

const MAX_REASON = 500;

/** `code` is one of weei_core/abi/errors.json, the same on every host; the message is one sentence for people. */
export class AbiError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.name = "AbiError";
    this.code = code;
  }
}

/**
 * Any thrown or returned value as text: numbers, undefined and objects come here too.
 * @param {unknown} value
 * @returns {string}
 */
export function rawText(value) {
  if (value instanceof Error) return value.message ? `${value.name}: ${value.message}` : value.name;
  if (typeof value === "string" && value.trim()) return value;
  let text;
  try {
    text = JSON.stringify(value);
  } catch {
    text = undefined;
  }
  return text ?? String(value);
}

/** @param {string} text */
export function shorten(text) {
  const points = [...text];
  return points.length > MAX_REASON ? `${points.slice(0, MAX_REASON - 1).join("")}…` : text;
}

/**
 * A sentence for whatever was thrown at `stage`: it names stage and module, and keeps the raw value.
 * @param {string} stage
 * @param {string} moduleId
 * @param {unknown} value
 */
export function failureSentence(stage, moduleId, value) {
  if (value instanceof AbiError) return value.message;
  return shorten(`${stage} failed in module ${moduleId || "(not named yet)"}: ${rawText(value)}`);
}

/**
 * The module's own refusal, `{"error": …}`: its reason as it stands, or a sentence where it gave none.
 * @param {string} operation
 * @param {string} moduleId
 * @param {unknown} reason
 */
export function refusalSentence(operation, moduleId, reason) {
  if (typeof reason === "string" && reason.trim()) return shorten(reason);
  return shorten(`${operation} was refused by module ${moduleId || "(not named yet)"} without a reason (error: ${rawText(reason)})`);
}
