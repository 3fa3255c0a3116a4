// The new-job and continue pages: collects files and settings, lets weei.js upload and create, shows how far it is.
import { presetFiles } from "./presets.js";
import { byId, setBar, setText, show, trainingApi } from "./dom.js";
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

/** @param {Array<string>} messages */
function showProblems(messages) {
  const box = byId("problem");
  const list = document.createElement("ul");
  for (const message of messages.flatMap((text) => text.split("\n")).filter(Boolean)) {
    const item = document.createElement("li");
    item.textContent = message;
    list.append(item);
  }
  const title = document.createElement("p");
  title.textContent = "The job was not created.";
  box.replaceChildren(title, list);
  box.hidden = messages.length === 0;
  if (messages.length) box.focus();
}

/** @param {Record<string, string>} problems by field name */
function showFieldProblems(problems) {
  for (const line of form.querySelectorAll("[data-problem]")) {
    const text = problems[line.getAttribute("data-problem") ?? ""] ?? "";
    line.textContent = text;
    /** @type {HTMLElement} */ (line).hidden = !text;
    const details = text ? line.closest("details") : null;
    if (details) details.open = true;
  }
}

/** What the chosen files are, in words. */
function renderChosen() {
  const { wasm, manifest, files, validation, executionFiles, checkpoint } = chosen();
  const all = [wasm, manifest, ...files, validation, ...executionFiles, checkpoint].filter((file) => file !== undefined);
  byId("chosen-files").replaceChildren(...all.slice(0, 40).map((file) => fileRow(file.name, bytesText(file.size), null)));
  if (all.length > 40) byId("chosen-files").append(fileRow(`and ${all.length - 40} more`, "", null));
  show("chosen", all.length > 0);
}

/** @param {string} name @param {string} words @param {number | null} fraction */
function fileRow(name, words, fraction) {
  const item = document.createElement("li");
  const row = document.createElement("div");
  row.className = "row";
  const left = document.createElement("span");
  left.textContent = name;
  const right = document.createElement("span");
  right.className = "muted small";
  right.textContent = words;
  row.append(left, right);
  item.append(row);
  if (fraction !== null) {
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.value = fraction;
    bar.setAttribute("aria-label", `${name}: ${words}`);
    item.append(bar);
  }
  return item;
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
  showFieldProblems(answer.errors ?? {});
  if (answer.errors) {
    form.querySelector("[data-problem]:not([hidden])")?.closest(".field")?.querySelector("input, select")?.scrollIntoView({ block: "center" });
    throw new Error("Some settings cannot be used; see the marked fields.");
  }
  return answer.settings;
}

/** @type {Record<string, string>} */
const PHASES = { hashing: "reading", uploading: "sending", held: "already here", done: "sent" };

/** @param {any} state */
function renderCreation(state) {
  if (byId("creation").hidden) return;
  const draft = state.draft;
  if (draft) {
    setText("creation-step", draft.state === "queued" ? "Waiting for the server to begin…" : `Preparing: ${draft.step || "checking the files"}`);
    setBar("creation-bar", draft.total ? draft.done / draft.total : null);
  } else if (state.upload.length) {
    const total = state.upload.reduce((/** @type {number} */ sum, /** @type {any} */ file) => sum + file.totalBytes, 0);
    const done = state.upload.reduce((/** @type {number} */ sum, /** @type {any} */ file) => sum + (file.phase === "hashing" ? 0 : file.bytes), 0);
    setText("creation-step", "Sending the files…");
    setBar("creation-bar", total ? done / total : null);
  }
  byId("creation-files").replaceChildren(
    ...state.upload.map((/** @type {any} */ file) => fileRow(file.fileName, file.error ?? `${PHASES[file.phase]} · ${bytesText(file.totalBytes)}`, file.totalBytes ? file.bytes / file.totalBytes : 1)),
  );
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
  form.elements.namedItem("method")?.dispatchEvent(new Event("change", { bubbles: true }));
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
  const training = await trainingApi();
  training.subscribe(renderCreation);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = /** @type {HTMLButtonElement} */ (byId("create"));
    button.disabled = true;
    try {
      await create(training);
    } catch (error) {
      // The job exists and only could not be opened here, because another one is current in this browser.
      const made = training.getState().draft?.jobId;
      if (made) return goTo(made);
      show("creation", false);
      form.hidden = false;
      showProblems([error instanceof Error ? error.message : String(error)]);
    } finally {
      button.disabled = false;
    }
    return undefined;
  });
}

start().catch((error) => showProblems([error instanceof Error ? error.message : String(error)]));
