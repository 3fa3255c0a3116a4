// The parts of the new-job form that depend on the chosen manifest: which files it asks for, and which settings.
import { fileRow } from "./creation.js";
import { byId, setText, show, showText } from "./dom.js";
import { bytesText } from "./format.js";
import { makesData } from "./package.js";
import { syncForm } from "./settings_form.js";

/** @typedef {import("./package.js").ManifestFacts} ManifestFacts */

const DATA_HELP = "All files that the manifest names, chosen together.";

/** @param {ManifestFacts} facts @param {File[]} chosen */
export function renderFileFields(facts, chosen) {
  const own = makesData(facts);
  const files = facts.slots.length > 0;
  show("validation-field", !own);
  show("files-field", !own || files);
  setText("files-label", own ? "Auxiliary weights files" : files ? "Data and auxiliary weights files" : "Data files");
  setText("files-help", own ? "Weights that the model uses and never changes. The package names these files:" : files ? `${DATA_HELP} Besides:` : DATA_HELP);
  const names = new Set(chosen.map((file) => file.name));
  const rows = facts.slots.map(({ fileName, bytes }) => fileRow(fileName, `${bytesText(bytes)} · ${names.has(fileName) ? "chosen" : "missing"}`, null));
  byId("files-wanted").replaceChildren(...rows);
  show("files-wanted", files);
  const units = String(facts.source?.unit?.label ?? "data").toLowerCase();
  showText("own-data", own ? `This model makes its own data (${units}) on each participant's device: there are no data files.` : null);
}

/** The settings of the form, fetched anew when another manifest asks for another kind of job. */
export class SettingsFields {
  #form;
  #url;
  #shown;

  /** @param {HTMLFormElement} form @param {string} url @param {string} source JSON of the workSource that the page came with */
  constructor(form, url, source) {
    this.#form = form;
    this.#url = url;
    this.#shown = source;
  }

  /** @param {string} source JSON, "" for a dataset job @param {() => FormData} typed */
  async show(source, typed) {
    if (source === this.#shown) return;
    const before = this.#shown;
    this.#shown = source;
    try {
      const text = await this.#fetch(typed());
      // Only the answer to the last change counts. The markup is the server's own template.
      if (source !== this.#shown) return;
      byId("settings-fields").innerHTML = text;
      syncForm(this.#form);
    } catch (error) {
      if (source === this.#shown) this.#shown = before;
      throw error;
    }
  }

  /** @param {FormData} body */
  async #fetch(body) {
    const response = await fetch(this.#url, { method: "POST", body });
    if (response.redirected) throw new Error("Your session ended. Sign in again in another tab, then try again.");
    if (!response.ok) throw new Error(`The settings could not be fetched: the server answered ${response.status}.`);
    return response.text();
  }
}
