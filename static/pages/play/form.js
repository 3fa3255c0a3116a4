// Any model that answers: its inputs as a form, its outputs as text.
import { byId, setText, showText } from "../dom.js";
import { inputField } from "./inputs.js";

/** @typedef {{id: string, label?: string}} Output */

/** @param {unknown} value */
function valueText(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(4)));
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A list of numbers as bars, each with its index and value. @param {number[]} values */
function bars(values) {
  const most = Math.max(...values.map(Math.abs), Number.MIN_VALUE);
  const list = document.createElement("ul");
  list.className = "bars";
  for (const [index, value] of values.entries()) {
    const item = document.createElement("li");
    const meter = document.createElement("progress");
    meter.max = 1;
    meter.value = Math.abs(value) / most;
    meter.setAttribute("aria-label", `${index}: ${valueText(value)}`);
    item.append(`${index}`, meter, valueText(value));
    list.append(item);
  }
  return list;
}

/** @param {unknown} value */
const isNumbers = (value) => Array.isArray(value) && value.length > 0 && value.length <= 64 && value.every((one) => typeof one === "number");

/** Only the server has read ModelInfo, and not this part of it. @param {unknown} list @returns {Output[]} */
const described = (list) => (Array.isArray(list) ? list.filter((one) => typeof one?.id === "string") : []);

export class FormView {
  #asking;
  /** @type {import("./inputs.js").Field[]} */ #fields;
  /** Whether the model says what its inputs are; else one field is the whole input. */
  #declared;
  /** @type {Output[]} */ #outputs;
  #round = 0;
  #asked = 0;

  /** @param {import("./page.js").Asking} asking */
  constructor(asking) {
    this.#asking = asking;
    const inputs = described(asking.inference.inputs);
    this.#outputs = described(asking.inference.outputs);
    this.#declared = inputs.length > 0;
    this.#fields = (this.#declared ? inputs : [{ id: "input", label: "Input" }]).map(inputField);
    byId("ask-inputs").append(...this.#fields.map((field) => field.element));
    byId("ask-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#ask();
    });
  }

  /** @param {number} round */
  show(round) {
    const asked = this.#round !== round && this.#asked > 0;
    this.#round = round;
    /** @type {HTMLButtonElement} */ (byId("ask-go")).disabled = false;
    // What was asked before is asked of this one too.
    if (asked) void this.#ask();
  }

  /** @returns {Promise<void>} */
  idle() {
    return Promise.resolve();
  }

  async #ask() {
    const turn = ++this.#asked;
    showText("ask-wrong", null);
    let input;
    try {
      const values = this.#fields.map((field) => [field.id, field.read()]);
      input = this.#declared ? Object.fromEntries(values) : values[0]?.[1];
    } catch (error) {
      return showText("ask-wrong", error instanceof Error ? error.message : String(error));
    }
    setText("play-status", "The model thinks…");
    try {
      const output = await this.#asking.ask(input);
      if (turn !== this.#asked) return undefined;
      this.#asking.problem(null);
      this.#render(output);
    } catch (error) {
      if (turn !== this.#asked) return undefined;
      setText("play-status", "There is no answer.");
      this.#asking.problem(error);
    }
    return undefined;
  }

  /** Declared outputs first, in their order; then whatever else came. @param {Record<string, unknown>} output */
  #render(output) {
    const declared = this.#outputs.filter(({ id }) => id in output);
    const more = Object.keys(output).filter((id) => !declared.some((one) => one.id === id));
    const rows = [...declared, ...more.map((id) => ({ id, label: id }))].flatMap(({ id, label }) => {
      const term = document.createElement("dt");
      term.textContent = label ?? id;
      const data = document.createElement("dd");
      const value = output[id];
      data.append(isNumbers(value) ? bars(/** @type {number[]} */ (value)) : valueText(value));
      return [term, data];
    });
    byId("ask-answer").replaceChildren(...rows);
    const first = rows[1]?.textContent ?? "";
    const short = declared[0] && !isNumbers(output[declared[0].id]) ? ` ${declared[0].label ?? declared[0].id}: ${first}.` : "";
    setText("play-status", `Round ${this.#round} answers.${short}`);
  }
}
