// The rows as they stand on the page, one tbody for each participant. Only what changed is written, so that focus, selection and
// open rows stay; what is closed is written when it is opened.

/** @typedef {import("./cells.js").Row} Row */

class RowElement {
  /** @type {Map<string, HTMLElement[]>} */ #always = new Map();
  /** @type {Map<string, HTMLElement[]>} */ #inside = new Map();
  /** @type {Row | null} */ #row = null;
  #details;

  /** @param {HTMLElement} body */
  constructor(body) {
    this.body = body;
    this.#details = /** @type {HTMLDetailsElement} */ (body.querySelector("details"));
    for (const element of /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll("[data-slot]"))) {
      const slots = element.closest("dl.facts") ? this.#inside : this.#always;
      const name = element.dataset["slot"] ?? "";
      slots.set(name, [...(slots.get(name) ?? []), element]);
    }
    this.#details.addEventListener("toggle", () => {
      if (this.#row) this.#write(this.#inside, this.#row);
    });
  }

  /** @param {Row} row */
  show(row) {
    this.#row = row;
    this.#write(this.#always, row);
    if (this.#details.open) this.#write(this.#inside, row);
  }

  /** @param {Map<string, HTMLElement[]>} slots @param {Row} row */
  #write(slots, { cells, tones }) {
    for (const [name, elements] of slots) {
      for (const element of elements) {
        const text = cells[name] ?? "";
        if (element.textContent !== text) element.textContent = text;
        if (name in tones && element.dataset["tone"] !== tones[name]) element.dataset["tone"] = tones[name];
      }
    }
  }
}

export class Rows {
  /** @type {Map<string, RowElement>} */ #byPeer = new Map();
  #table;
  #template;

  /** @param {HTMLTableElement} table that may have rows already @param {HTMLTemplateElement} template of a row */
  constructor(table, template) {
    this.#table = table;
    this.#template = template;
    for (const body of table.tBodies) this.#byPeer.set(body.dataset["peer"] ?? "", new RowElement(body));
  }

  /**
   * @param {Row[]} rows in their order @param {(row: Row) => boolean} shown
   * @param {{moving?: boolean}} [options] `moving`: reorder also what a person is busy with
   */
  show(rows, shown, { moving = false } = {}) {
    const peers = new Set(rows.map((row) => row.peer));
    for (const [peer, { body }] of this.#byPeer) {
      if (peers.has(peer)) continue;
      body.remove();
      this.#byPeer.delete(peer);
    }
    const bodies = rows.map((row) => this.#write(row, shown(row)));
    if (moving || !this.#busy()) this.#arrange(bodies);
  }

  /** @param {Row} row @param {boolean} visible */
  #write(row, visible) {
    let element = this.#byPeer.get(row.peer);
    if (!element) {
      const copy = /** @type {DocumentFragment} */ (this.#template.content.cloneNode(true));
      element = new RowElement(/** @type {HTMLElement} */ (copy.querySelector("tbody")));
      element.body.dataset["peer"] = row.peer;
      this.#byPeer.set(row.peer, element);
      this.#table.append(element.body);
    }
    element.show(row);
    if (element.body.hidden === visible) element.body.hidden = !visible;
    return element.body;
  }

  /** A row under the pointer or with the focus does not run away, and moving an element would take its focus. */
  #busy() {
    return [...this.#table.tBodies].some((body) => body.matches(":hover, :focus-within"));
  }

  /** Moves as few rows as come out of their order. @param {HTMLElement[]} bodies */
  #arrange(bodies) {
    let at = this.#table.tBodies[0] ?? null;
    for (const body of bodies) {
      if (body === at) at = /** @type {HTMLTableSectionElement | null} */ (at.nextElementSibling);
      else this.#table.insertBefore(body, at);
    }
  }
}
