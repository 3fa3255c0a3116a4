// Any model that answers: its inputs as a form, its outputs as text.
import { byId, setText, showText } from "../dom.js";
import { inputField } from "./inputs.js";

/** @typedef {{id: string, label?: string}} Output */

/** @param {unknown} value */
function valueText(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(4)));
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Numbers as bars, each with its index or name and its value. @param {Array<[string, number]>} numbers */
function bars(numbers) {
  const most = Math.max(...numbers.map(([, value]) => Math.abs(value)), Number.MIN_VALUE);
  const list = document.createElement("ul");
  list.className = "bars";
  for (const [name, value] of numbers) {
    const item = document.createElement("li");
    const meter = document.createElement("progress");
    meter.max = 1;
    meter.value = Math.abs(value) / most;
    meter.setAttribute("aria-label", `${name}: ${valueText(value)}`);
    item.append(name, meter, valueText(value));
    list.append(item);
  }
  return list;
}

/** A list or an object of few numbers, and of nothing else; or null. @param {unknown} value @returns {Array<[string, number]> | null} */
function numbersOf(value) {
  const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return entries.length > 0 && entries.length <= 64 && entries.every(([, one]) => typeof one === "number") ? entries : null;
}

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
      const numbers = numbersOf(output[id]);
      data.append(numbers ? bars(numbers) : valueText(output[id]));
      return [term, data];
    });
    byId("ask-answer").replaceChildren(...rows);
    const first = rows[1]?.textContent ?? "";
    const short = declared[0] && !numbersOf(output[declared[0].id]) ? ` ${declared[0].label ?? declared[0].id}: ${first}.` : "";
    setText("play-status", `Round ${this.#round} answers.${short}`);
  }
}
