// The Execution diagnostics card: at most one change of the page a second, from what weei.js hears, else from the server's fragment.
import { byId } from "../dom.js";
import { matches, ordered, pressed } from "./order.js";
import { Rows } from "./rows.js";
import { aged, isLive, readView, viewOf } from "./view.js";

/** @typedef {import("./order.js").Key} Key */
/** @typedef {import("./view.js").View} View */
/** @typedef {import("../../weei/weei.js").TrainingState} TrainingState */

const PATCH_MS = 1000;
const FEW = 3;
const MOST_LINES = 8;

export class DiagnosticsCard {
  #panel = byId("panel-diagnostics");
  #table = /** @type {HTMLTableElement} */ (this.#panel.querySelector("table"));
  #rows = new Rows(this.#table, /** @type {HTMLTemplateElement} */ (byId("diagnostics-row")));
  #jobId = byId("diagnostics").dataset["job"];
  #served = { view: readView(this.#panel), at: performance.now() };
  #view = this.#served.view;
  /** @type {TrainingState | null} */ #state = null;
  #toldAt = 0;
  /** @type {import("./order.js").Order} */ #order = { key: "", descending: false };
  /** @type {Map<Key, HTMLElement>} */ #heads = new Map();
  #states = "";

  start() {
    for (const head of /** @type {NodeListOf<HTMLElement>} */ (this.#table.querySelectorAll("th[data-sort]"))) this.#makeHead(head);
    for (const id of ["diagnostics-find", "diagnostics-state", "diagnostics-differing"]) byId(id).addEventListener("input", () => this.#chosen());
    byId("diagnostics-order").addEventListener("input", () => {
      this.#sort(pressed({ key: "", descending: false }, /** @type {Key} */ (selected("diagnostics-order"))));
    });
    this.#panel.addEventListener("weei:fragment", (event) => {
      event.preventDefault();
      this.#served = { view: this.#read(/** @type {CustomEvent} */ (event).detail), at: performance.now() };
    });
    // What is heard here is newer than what the server would answer.
    this.#panel.addEventListener("htmx:beforeRequest", (event) => {
      if (this.#live()) event.preventDefault();
    });
    this.#show();
    setInterval(() => this.#tick(), PATCH_MS);
    document.addEventListener("visibilitychange", () => this.#tick());
  }

  /** @param {TrainingState} state */
  accept(state) {
    this.#state = state.job?.id === this.#jobId ? state : null;
    this.#toldAt = performance.now();
  }

  /** A fragment of a job that stands still carries no poll: then the one on the page ends. @param {string} text */
  #read(text) {
    const parsed = document.createElement("template");
    parsed.innerHTML = text;
    const poll = parsed.content.querySelector("[data-marker]");
    if (poll && !poll.hasAttribute("hx-get")) this.#panel.querySelector("[data-marker]")?.replaceWith(poll);
    return readView(parsed.content);
  }

  #live() {
    return this.#state !== null && isLive(this.#state, performance.now() - this.#toldAt);
  }

  #tick() {
    if (document.hidden) return;
    const now = performance.now();
    const next = this.#state && this.#live() ? viewOf(this.#state, now - this.#toldAt) : aged(this.#served.view, now - this.#served.at);
    if (next.tone !== this.#view.tone && (next.tone === "warn" || this.#view.tone === "warn")) say(next.sentence);
    this.#view = next;
    this.#show();
  }

  /** @param {{moving?: boolean}} [options] */
  #show(options) {
    const { sentence, tone, lines, rows } = this.#view;
    const verdict = /** @type {HTMLElement} */ (this.#panel.querySelector("[data-slot=verdict]"));
    if (verdict.textContent !== sentence) verdict.textContent = sentence;
    if (verdict.className !== `note ${tone}`) verdict.className = `note ${tone}`;
    this.#showLines(lines);
    const filter = this.#filter();
    this.#rows.show(ordered(rows, this.#order), (row) => matches(row, filter), options);
    setHidden(verdict, rows.length === 0);
    setHidden(this.#table, rows.length === 0);
    setHidden(/** @type {HTMLElement} */ (this.#panel.querySelector("[data-slot=empty]")), rows.length > 0);
    setHidden(byId("diagnostics-filters"), rows.length <= FEW);
    this.#showStates(rows.map((row) => row.cells["state"] ?? ""));
  }

  /** @param {string[]} lines */
  #showLines(lines) {
    const list = /** @type {HTMLElement} */ (this.#panel.querySelector("[data-slot=lines]"));
    const more = lines.length - MOST_LINES;
    const texts = [...lines.slice(0, MOST_LINES), ...(more > 0 ? [`and ${more} more: choose “Only those that differ”`] : [])];
    if ([...list.children].map((item) => item.textContent).join("\n") === texts.join("\n")) return;
    list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  }

  /** The states to choose from are those that occur, and the chosen one; not while somebody chooses. @param {string[]} present */
  #showStates(present) {
    if (document.activeElement?.id === "diagnostics-state") return;
    const chosen = selected("diagnostics-state");
    const states = [...new Set(present), ...(chosen && !present.includes(chosen) ? [chosen] : [])].toSorted();
    if (states.join("\n") === this.#states) return;
    this.#states = states.join("\n");
    const select = /** @type {HTMLSelectElement} */ (byId("diagnostics-state"));
    select.replaceChildren(new Option("any state", ""), ...states.map((state) => new Option(state, state, false, state === chosen)));
  }

  #filter() {
    const find = /** @type {HTMLInputElement} */ (byId("diagnostics-find")).value;
    return { find, state: selected("diagnostics-state"), differing: /** @type {HTMLInputElement} */ (byId("diagnostics-differing")).checked };
  }

  #chosen() {
    this.#show({ moving: true });
    const filter = this.#filter();
    const count = this.#view.rows.filter((row) => matches(row, filter)).length;
    say(`${count} of ${this.#view.rows.length} participants are shown.`);
  }

  /** @param {HTMLElement} head */
  #makeHead(head) {
    const key = /** @type {Key} */ (head.dataset["sort"]);
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", textContent: head.textContent });
    button.addEventListener("click", () => this.#sort(pressed(this.#order, key)));
    head.replaceChildren(button);
    this.#heads.set(key, head);
  }

  /** @param {import("./order.js").Order} order */
  #sort(order) {
    this.#order = order;
    for (const [key, head] of this.#heads) {
      if (key === order.key) head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    /** @type {HTMLSelectElement} */ (byId("diagnostics-order")).value = order.key;
    this.#show({ moving: true });
  }
}

/** Writing what is there already is a change for whoever observes the page. @param {HTMLElement} element @param {boolean} hidden */
function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

/** @param {string} id of a select */
const selected = (id) => /** @type {HTMLSelectElement} */ (byId(id)).value;

/** To those who cannot see it; said for what a person did and for a changed verdict, never for figures. @param {string} text */
function say(text) {
  byId("diagnostics-said").textContent = text;
}
