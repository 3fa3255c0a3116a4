// The new-job and continue pages: collects files and settings, lets weei.js upload and create, shows how far it is.
import { presetFiles } from "./presets.js";
import { fileRow, renderCreation, showFieldProblems, showProblems } from "./creation.js";
import { byId, show, trainingApi } from "./dom.js";
import { bytesText } from "./format.js";
import { renderFileFields, SettingsFields } from "./kind_fields.js";
import { makesData, NOTHING, readManifest } from "./package.js";
import { toastNext } from "./toasts.js";

const form = /** @type {HTMLFormElement} */ (byId("job-form"));
const { check = "", advice = "", fields = "", jobUrl = "/jobs/", sourceJob, sourceRound, sourceManifest } = form.dataset;
const continues = form.dataset["continue"] !== undefined;
/** Files of the chosen example; a file that the person chooses wins. @type {import("./presets.js").PresetFiles | null} */
let preset = null;
/** The manifest of the job whose checkpoint goes on. @type {File | undefined} */
let inherited;
/** Of the manifest that is chosen now. @type {import("./package.js").ManifestFacts} */
let facts = NOTHING;
/** @type {File | undefined} */
let factsFrom;
const settingsFields = new SettingsFields(form, fields, hidden("workSource")?.value ?? "");

/** @param {string} name @returns {File[]} */
function filesOf(name) {
  const input = form.elements.namedItem(name);
  return input instanceof HTMLInputElement ? [...(input.files ?? [])] : [];
}

/** What the manifest does not ask for is left out, though it may be chosen still. */
function chosen() {
  const data = filesOf("files");
  const own = makesData(facts);
  return {
    wasm: filesOf("wasm")[0] ?? preset?.wasm,
    manifest: filesOf("manifest")[0] ?? preset?.manifest ?? inherited,
    files: own && !facts.slots.length ? [] : data.length ? data : (preset?.files ?? []),
    validation: own ? undefined : (filesOf("validation")[0] ?? preset?.validation),
    executionFiles: filesOf("executionFiles"),
    checkpoint: filesOf("checkpoint")[0],
  };
}

/** What the chosen files are, in words. */
function renderChosen() {
  const { wasm, manifest, files, validation, executionFiles, checkpoint } = chosen();
  const all = [wasm, manifest, ...files, validation, ...executionFiles, checkpoint].filter((file) => file !== undefined).filter((file) => file !== inherited);
  byId("chosen-files").replaceChildren(...all.slice(0, 40).map((file) => fileRow(file.name, bytesText(file.size), null)));
  if (all.length > 40) byId("chosen-files").append(fileRow(`and ${all.length - 40} more`, "", null));
  show("chosen", all.length > 0);
}

/** @param {string} name */
function hidden(name) {
  const input = form.elements.namedItem(name);
  return input instanceof HTMLInputElement ? input : null;
}

/** @param {string} name @param {string} value */
function setHidden(name, value) {
  const input = hidden(name);
  if (input) input.value = value;
}

/** What hangs on the chosen files: the list of them, the fields and the settings that the manifest asks for. */
async function renderFiles() {
  const { manifest } = chosen();
  if (manifest !== factsFrom) {
    const read = await readManifest(manifest);
    // Another one was chosen meanwhile.
    if (manifest !== chosen().manifest) return;
    [facts, factsFrom] = [read, manifest];
  }
  renderFileFields(facts, chosen().files);
  renderChosen();
  const source = facts.source ? JSON.stringify(facts.source) : "";
  setHidden("workSource", source);
  await settingsFields.show(source, settingsData);
}

let asked = 0;
async function askAdvice() {
  const turn = ++asked;
  setHidden("chunks", String(facts.chunks));
  setHidden("largestExamples", String(facts.largest));
  setHidden("hasValidation", chosen().validation ? "on" : "");
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
  const common = { ...files, name: name || undefined, settings, open: false };
  if (!continues) return goTo(training, await training.createJob(common));
  const mode = new FormData(form).get("datasetMode");
  const source = sourceJob
    ? { checkpoint: training.exportCheckpoint(Number(sourceRound)), wasm: files.wasm ?? training.exportModule() }
    : {};
  return goTo(training, await training.continueFromCheckpoint({ ...common, ...source, datasetMode: mode }));
}

/** The job is there, also when it cannot be opened here because another one is current in this browser. @param {any} training @param {{id: string}} job */
async function goTo(training, { id }) {
  await training.openJob(id).catch(() => {});
  toastNext("The job is created. Invite participants, then start it.");
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
    } catch (error) {
      button.setAttribute("aria-pressed", "false");
      return showProblems([`The example could not be loaded: ${error instanceof Error ? error.message : error}`]);
    }
  }
  await renderFiles();
  if (preset && !sourceJob) fillSettings(preset.settings);
  await askAdvice();
  return undefined;
}

/** @param {Record<string, any>} settings */
function fillSettings(settings) {
  const { validationSchedule = {}, aggregation = {}, experience = {}, ...plain } = settings;
  const { enabled, unit, every } = validationSchedule;
  const values = { ...plain, ...experience, ...aggregation, validationEnabled: enabled, validationUnit: unit, validationEvery: every };
  for (const [name, value] of Object.entries(values)) {
    const input = form.elements.namedItem(name);
    if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = Boolean(value);
    else if ((input instanceof HTMLInputElement || input instanceof HTMLSelectElement) && value !== undefined) input.value = String(value);
  }
  byId("id_method").dispatchEvent(new Event("change", { bubbles: true }));
}

/** @param {string} url */
async function inherit(url) {
  const response = await fetch(url);
  if (!response.ok || response.redirected) throw new Error("The manifest of the job could not be fetched: choose it again below.");
  inherited = new File([await response.blob()], "manifest.json");
}

/** @param {unknown} error @param {unknown} [code] of what the server found in the files */
function showError(error, code) {
  showProblems([error instanceof Error ? error.message : String(error)], /** @type {{code?: unknown}} */ (error).code ?? code);
}

/** The form's own answer to what was chosen last. @type {Promise<unknown>} */
let changing = Promise.resolve();

async function start() {
  form.addEventListener("change", () => {
    changing = renderFiles().catch((error) => showError(error));
    void changing.then(askAdvice).catch(() => {});
  });
  form.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-preset]") : null;
    if (button instanceof HTMLElement) changing = choosePreset(button).catch((error) => showError(error));
  });
  const ready = trainingApi();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit(ready);
  });
  if (sourceManifest) await inherit(sourceManifest).catch((error) => showError(error));
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
    await changing;
    await create(training);
  } catch (error) {
    // Made, and only not followed here: its own page says the rest.
    const draft = training?.getState().draft;
    if (draft?.jobId) return goTo(training, { id: draft.jobId });
    show("creation", false);
    form.hidden = false;
    showError(error, draft?.code);
  } finally {
    button.disabled = false;
  }
  return undefined;
}

start().catch((error) => showError(error));
