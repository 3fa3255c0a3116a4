// The inputs that a model declares, each as a field that a person can fill. What the page does not know is JSON.
import { Paper } from "./paper.js";

const MOST_PIXELS = 1024;
/** Longer lists are pasted as JSON. */
const MOST_NUMBERS = 10_000;
const MOST_NAMES = 100;

/** @typedef {{id: string, label?: string, type?: string, value?: number, names?: string[], count?: number, columns?: number, minimum?: number, maximum?: number}} Input */
/** `read` gives the value for the model, or throws an Error that says what is wrong.
 * @typedef {{id: string, element: HTMLElement, read: () => unknown}} Field */

let made = 0;

/** @param {Input} input @param {HTMLInputElement | HTMLTextAreaElement} control @param {string} [help] */
function field(input, control, help) {
  made += 1;
  const element = document.createElement("div");
  element.className = "field";
  control.id = `ask-${made}`;
  const label = document.createElement("label");
  label.htmlFor = control.id;
  label.textContent = input.label ?? input.id;
  element.append(label, control);
  if (help) {
    const line = document.createElement("p");
    line.className = "help";
    line.id = `${control.id}-help`;
    line.textContent = help;
    control.setAttribute("aria-describedby", line.id);
    element.append(line);
  }
  return element;
}

/** @param {Input} input @returns {Field} */
function numberField(input) {
  const control = document.createElement("input");
  control.type = "number";
  control.step = input.type === "integer" ? "1" : "any";
  for (const name of /** @type {const} */ (["minimum", "maximum"])) {
    if (input[name] !== undefined) control[name === "minimum" ? "min" : "max"] = String(input[name]);
  }
  if (typeof input.value === "number") control.value = String(input.value);
  const read = () => {
    if (control.value === "" || !control.checkValidity()) throw new Error(`${input.label ?? input.id}: ${control.validationMessage || "a number is needed."}`);
    return Number(control.value);
  };
  return { id: input.id, element: field(input, control), read };
}

/** @param {Input} input @returns {Field} */
function textField(input) {
  const control = document.createElement("textarea");
  control.rows = 3;
  return { id: input.id, element: field(input, control), read: () => control.value };
}

/** A seed travels as decimal text. @param {Input} input @returns {Field} */
function seedField(input) {
  const control = document.createElement("input");
  control.inputMode = "numeric";
  control.value = "1";
  return { id: input.id, element: field(input, control), read: () => control.value.trim() };
}

/** @param {Input} input @returns {Field} */
function jsonField(input) {
  const control = document.createElement("textarea");
  control.rows = 4;
  control.spellcheck = false;
  const read = () => {
    try {
      return JSON.parse(control.value);
    } catch (error) {
      throw new Error(`${input.label ?? input.id} must be JSON: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
  };
  return { id: input.id, element: field(input, control, "As JSON."), read };
}

/** @param {Input} input @param {string} text */
function numbers({ id, label, count }, text) {
  const values = text.split(/[\s,]+/).filter(Boolean).map(Number);
  if (values.some((value) => !Number.isFinite(value))) throw new Error(`${label ?? id} must be numbers with spaces or commas between them.`);
  if (count !== undefined && values.length !== count) throw new Error(`${label ?? id} must be ${count} numbers; found ${values.length}.`);
  return values;
}

/** What is half typed leaves the picture as it was. @param {() => number[]} read @param {number[]} otherwise */
function numbersOr(read, otherwise) {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/** @param {Input} input @returns {Field} */
function numbersField(input) {
  const { id, names, count = 1, columns = 0, minimum = 0, maximum = 1 } = input;
  if (!(count > 0 && count <= MOST_NUMBERS)) return jsonField(input);
  const control = document.createElement("textarea");
  control.rows = 4;
  control.spellcheck = false;
  control.value = Array(count).fill(minimum).join(" ");
  const order = Array.isArray(names) && names.length === count && names.length <= MOST_NAMES ? ` In this order: ${names.join(", ")}.` : "";
  const element = field(input, control, `Numbers with spaces between them.${order}`);
  const read = () => numbers(input, control.value);
  if (columns && count % columns === 0 && count <= MOST_PIXELS) {
    const paper = new Paper({ columns, minimum, maximum }, read(), (values) => (control.value = values.join(" ")));
    control.addEventListener("input", () => paper.show(numbersOr(read, paper.values)));
    element.querySelector("label")?.after(paper.element);
  }
  return { id, element, read };
}

/** @type {Record<string, (input: Input) => Field>} */
const KINDS = { number: numberField, integer: numberField, text: textField, seed: seedField, numbers: numbersField };

/** @param {Input} input @returns {Field} */
export const inputField = (input) => (KINDS[input.type ?? ""] ?? jsonField)(input);
