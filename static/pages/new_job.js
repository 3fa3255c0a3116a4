// The new-job and continue pages: collects files and settings, lets weei.js upload and create, shows how far it is.
import { presetFiles } from "./presets.js";
import { fileRow, renderCreation, showFieldProblems, showProblems } from "./creation.js";
import { byId, show, trainingApi } from "./dom.js";
import { bytesText } from "./format.js";
import "./settings_form.js";

const form = /** @type {HTMLFormElement} */ (byId("job-form"));
const { check = "", advice = "", jobUrl = "/jobs/", sourceJob, sourceRound } = form.dataset;
const continues = form.dataset["continue"] !== undefined;
/** Files of the chosen example; a file that the person chooses wins. @type {import("./presets.js").PresetFiles | null} */
let preset = null;

/** @param {string} name @returns {File[]} */
function filesOf(name) {
  const input = form.elements.namedItem(name);
  return input instanceof HTMLInputElement ? [...(input.files ?? [])] : [];
}

function chosen() {
  const data = filesOf("files");
  return {
    wasm: filesOf("wasm")[0] ?? preset?.wasm,
    manifest: filesOf("manifest")[0] ?? preset?.manifest,
    files: data.length ? data : (preset?.files ?? []),
    validation: filesOf("validation")[0] ?? preset?.validation,
    executionFiles: filesOf("executionFiles"),
    checkpoint: filesOf("checkpoint")[0],
  };
}

/** What the chosen files are, in words. */
function renderChosen() {
  const { wasm, manifest, files, validation, executionFiles, checkpoint } = chosen();
  const all = [wasm, manifest, ...files, validation, ...executionFiles, checkpoint].filter((file) => file !== undefined);
  byId("chosen-files").replaceChildren(...all.slice(0, 40).map((file) => fileRow(file.name, bytesText(file.size), null)));
  if (all.length > 40) byId("chosen-files").append(fileRow(`and ${all.length - 40} more`, "", null));
  show("chosen", all.length > 0);
}

/** The manifest's size is all the advice needs; whether it is right, the server says. @param {File} file */
async function countChunks(file) {
  try {
    const value = JSON.parse(await file.text());
    const list = Array.isArray(value) ? value : value?.inlineJson?.["dataset-manifest.json"];
    if (!Array.isArray(list)) return { chunks: 0, largest: 0 };
    return { chunks: list.length, largest: Math.max(0, ...list.map((entry) => Number(entry?.exampleCount) || 0)) };
  } catch {
    return { chunks: 0, largest: 0 };
  }
}

/** @param {string} name @param {string} value */
function setHidden(name, value) {
  const input = form.elements.namedItem(name);
  if (input instanceof HTMLInputElement) input.value = value;
}

let asked = 0;
async function askAdvice() {
  const { manifest, validation } = chosen();
  const turn = ++asked;
  const { chunks, largest } = manifest ? await countChunks(manifest) : { chunks: 0, largest: 0 };
  setHidden("chunks", String(chunks));
  setHidden("largestExamples", String(largest));
  setHidden("hasValidation", validation ? "on" : "");
  const response = await fetch(advice, { method: "POST", body: settingsData() });
  const text = response.ok && !response.redirected ? await response.text() : "";
  // Only the answer to the last change counts. The markup is the server's own template.
  if (turn === asked) byId("advice").innerHTML = text;
}

/** The form without its files. */
function settingsData() {
  const data = new FormData(form);
  for (const name of ["wasm", "manifest", "files", "validation", "executionFiles", "checkpoint"]) data.delete(name);
  return data;
}

async function readSettings() {
  const response = await fetch(check, { method: "POST", body: settingsData() });
  if (response.redirected) throw new Error("Your session ended. Sign in again in another tab, then try again.");
  const answer = await response.json();
  showFieldProblems(form, answer.errors ?? {});
  if (answer.errors) {
    form.querySelector("[data-problem]:not([hidden])")?.closest(".field")?.querySelector("input, select")?.scrollIntoView({ block: "center" });
    throw new Error("Some settings cannot be used; see the marked fields.");
  }
  return answer.settings;
}

/** @param {any} training */
async function create(training) {
  const files = chosen();
  const missing = [];
  if (!files.wasm && !sourceJob) missing.push("Choose the model module, or an example.");
  if (!files.manifest) missing.push("Choose the manifest.");
  if (continues && !files.checkpoint && !sourceJob) missing.push("Choose the checkpoint file.");
  if (missing.length) return showProblems(missing);
  const settings = await readSettings();
  showProblems([]);
  show("creation", true);
  form.hidden = true;
  byId("creation-title").focus();
  const name = /** @type {HTMLInputElement} */ (byId("job-name")).value.trim();
  const common = { ...files, name: name || undefined, settings };
  if (!continues) return goTo((await training.createJob(common)).id);
  const mode = new FormData(form).get("datasetMode");
  const source = sourceJob
    ? { checkpoint: training.exportCheckpoint(Number(sourceRound)), wasm: files.wasm ?? training.exportModule() }
    : {};
  return goTo((await training.continueFromCheckpoint({ ...common, ...source, datasetMode: mode })).id);
}

/** @param {string} id */
function goTo(id) {
  location.assign(`${jobUrl}${id}/`);
}

/** @param {HTMLElement} button */
async function choosePreset(button) {
  const pressed = button.getAttribute("aria-pressed") === "true";
  for (const other of form.querySelectorAll("[data-preset]")) other.setAttribute("aria-pressed", "false");
  preset = null;
  if (!pressed) {
    button.setAttribute("aria-pressed", "true");
    try {
      preset = await presetFiles(button.dataset["preset"] ?? "");
      if (!sourceJob) fillSettings(preset.settings);
    } catch (error) {
      button.setAttribute("aria-pressed", "false");
      showProblems([`The example could not be loaded: ${error instanceof Error ? error.message : error}`]);
    }
  }
  renderChosen();
  await askAdvice();
}

/** @param {Record<string, any>} settings */
function fillSettings(settings) {
  const { validationSchedule = {}, aggregation = {}, ...plain } = settings;
  const { enabled, unit, every } = validationSchedule;
  const values = { ...plain, ...aggregation, validationEnabled: enabled, validationUnit: unit, validationEvery: every };
  for (const [name, value] of Object.entries(values)) {
    const input = form.elements.namedItem(name);
    if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = Boolean(value);
    else if ((input instanceof HTMLInputElement || input instanceof HTMLSelectElement) && value !== undefined) input.value = String(value);
  }
  byId("id_method").dispatchEvent(new Event("change", { bubbles: true }));
}

async function start() {
  form.addEventListener("change", () => {
    renderChosen();
    void askAdvice().catch(() => {});
  });
  form.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-preset]") : null;
    if (button instanceof HTMLElement) void choosePreset(button);
  });
  const ready = trainingApi();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit(ready);
  });
  // Files may have been chosen before this script ran, or kept by the browser over a reload.
  form.dispatchEvent(new Event("change"));
  (await ready).subscribe(renderCreation);
}

/** @param {Promise<any>} ready */
async function submit(ready) {
  const button = /** @type {HTMLButtonElement} */ (byId("create"));
  button.disabled = true;
  /** @type {any} */
  let training;
  try {
    training = await ready;
    await create(training);
  } catch (error) {
    // The job exists and only could not be opened here, because another one is current in this browser.
    const made = training?.getState().draft?.jobId;
    if (made) return goTo(made);
    show("creation", false);
    form.hidden = false;
    showProblems([error instanceof Error ? error.message : String(error)]);
  } finally {
    button.disabled = false;
  }
  return undefined;
}

start().catch((error) => showProblems([error instanceof Error ? error.message : String(error)]));
