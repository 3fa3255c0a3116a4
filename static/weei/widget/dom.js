/** Small helpers of the window. Everything from outside is set as text. */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [properties] `on…` are listeners, names with a dash are attributes, the others are properties
 * @param {Array<Node | string | null | undefined>} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else Object.assign(element, { [name]: value });
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Only what changed, so that screen readers hear a status once. @param {HTMLElement} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {HTMLProgressElement} bar @param {number | null} fraction null: nobody knows the end */
export function setBar(bar, fraction) {
  if (fraction === null || !Number.isFinite(fraction)) bar.removeAttribute("value");
  else bar.value = Math.min(1, Math.max(0, fraction));
}

/**
 * A list that is made anew only when what it shows has changed, so that nobody's focus is lost for nothing.
 * @template T @param {HTMLElement} list @param {T[]} items @param {(item: T) => HTMLElement} row
 */
export function setRows(list, items, row) {
  const key = JSON.stringify(items);
  if (list.dataset["key"] === key) return;
  list.dataset["key"] = key;
  const root = /** @type {ShadowRoot} */ (list.getRootNode());
  const name = list.contains(root.activeElement) ? root.activeElement?.getAttribute("aria-label") : null;
  list.replaceChildren(...items.map(row));
  if (name) /** @type {HTMLElement | null} */ (list.querySelector(`[aria-label=${JSON.stringify(name)}]`))?.focus();
}

/** A labelled field. @param {string} label @param {HTMLElement} field @param {string} [hint] */
export const labelled = (label, field, hint) => h("label", {}, h("span", {}, label), field, hint ? h("small", {}, hint) : null);

/** A line of a list of facts. @param {string} name @param {string} value @param {string} [title] */
export const fact = (name, value, title = "") => h("div", { className: "fact" }, h("dt", {}, name), h("dd", { title }, value));

export class Buttons {
  #problem;

  /** @param {HTMLElement} problem where a refusal is shown */
  constructor(problem) {
    this.#problem = problem;
  }

  /** @param {string} text @param {() => Promise<unknown>} command @param {{label?: string, className?: string}} [options] `label`: what it is about, for screen readers */
  button(text, command, { label, className = "" } = {}) {
    const button = h("button", { type: "button", className, onclick: () => void this.run(button, command) }, text);
    if (label) button.setAttribute("aria-label", label);
    return button;
  }

  /** The button is off meanwhile, a refusal is shown. @param {HTMLButtonElement} button @param {() => Promise<unknown>} command */
  async run(button, command) {
    button.disabled = true;
    this.say("");
    try {
      await command();
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    } finally {
      button.disabled = false;
    }
  }

  /** @param {string} problem */
  say(problem) {
    setText(this.#problem, problem);
    this.#problem.hidden = problem === "";
  }
}
