/** The built-in interface: a small window over any page, in a shadow root. It uses the public API and nothing else. */
import { Buttons, h, setText } from "./dom.js";
import { checkpointsSection } from "./checkpoints.js";
import { createSection } from "./create.js";
import { deviceSection, settingsSection } from "./device.js";
import { invitationsSection } from "./invitations.js";
import { jobSection } from "./job.js";
import { peopleSection } from "./people.js";
import { styleSheet } from "./style.js";

/** @typedef {import("../weei.js").DistributedTraining} Training */
/** @typedef {import("../weei.js").TrainingState} TrainingState */
/** A part of the window. @typedef {{element: HTMLElement, render(state: TrainingState): void}} Section */
/** What sections are given. `base` is the origin of the Weei site. @typedef {{training: Training, buttons: Buttons, base: string}} Parts */

export class WidgetWindow {
  #host = document.createElement("weei-window");
  #problem = h("p", { className: "problem", role: "alert", hidden: true });
  #title = h("h2", { id: "title", tabIndex: -1 }, "Distributed training");
  /** @type {Section[]} */ #sections;
  /** @type {(() => void) | null} */ #stop = null;
  /** @type {Element | null} where the focus was before */ #before = null;
  #visible = true;
  #training;

  /** @param {{training: Training, base: string}} of */
  constructor({ training, base }) {
    this.#training = training;
    const parts = { training, base, buttons: new Buttons(this.#problem) };
    const make = [invitationsSection, jobSection, deviceSection, peopleSection, checkpointsSection, createSection, settingsSection];
    this.#sections = make.map((section) => section(parts));
    const root = this.#host.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [styleSheet()];
    const close = h("button", { type: "button", "aria-label": "Close the window; training goes on", onclick: () => this.close() }, "✕");
    const body = h("div", { className: "body" }, this.#problem, ...this.#sections.map(({ element }) => element));
    root.append(h("div", { role: "dialog", "aria-labelledby": "title" }, h("header", {}, this.#title, close), body));
    root.addEventListener("keydown", (event) => {
      if (/** @type {KeyboardEvent} */ (event).key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
  }

  /** Idempotent: a window that is open gets the focus. */
  open() {
    if (!this.#stop) {
      this.#before = document.activeElement;
      document.body.append(this.#host);
      this.#stop = this.#training.subscribe((state) => this.#render(state));
    }
    this.#host.hidden = !this.#visible;
    this.#title.focus();
  }

  close() {
    this.#stop?.();
    this.#stop = null;
    this.#host.remove();
    if (this.#before instanceof HTMLElement && this.#before.isConnected) this.#before.focus();
  }

  /** @param {boolean} visible */
  setVisible(visible) {
    this.#visible = visible;
    this.#host.hidden = !visible;
  }

  /** @param {TrainingState} state */
  #render(state) {
    setText(this.#title, state.job ? state.job.name : "Distributed training");
    for (const section of this.#sections) section.render(state);
  }
}
