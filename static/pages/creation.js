// How far the creation of a job is, and what was wrong with it.
import { byId, helpLink, setBar, setText } from "./dom.js";
import { bytesText } from "./format.js";
import { leftText, Pace, titleProgress } from "./progress.js";

/** A message of several lines is a list. @param {Array<string>} messages @param {unknown} [code] of the entry that explains them */
export function showProblems(messages, code) {
  const box = byId("problem");
  const list = document.createElement("ul");
  for (const message of messages.flatMap((text) => text.split("\n")).filter(Boolean)) {
    const item = document.createElement("li");
    item.textContent = message;
    list.append(item);
  }
  const title = document.createElement("p");
  title.textContent = "The job was not created.";
  const link = document.createElement("p");
  link.append(helpLink(code));
  box.replaceChildren(title, list, link);
  box.hidden = messages.length === 0;
  if (messages.length) box.focus();
}

/** @param {HTMLFormElement} form @param {Record<string, string>} problems by field name */
export function showFieldProblems(form, problems) {
  for (const line of form.querySelectorAll("[data-problem]")) {
    const text = problems[line.getAttribute("data-problem") ?? ""] ?? "";
    line.textContent = text;
    /** @type {HTMLElement} */ (line).hidden = !text;
    const details = text ? line.closest("details") : null;
    if (details) details.open = true;
  }
}

/** @param {string} name @param {string} words @param {number | null} fraction */
export function fileRow(name, words, fraction) {
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

/** @type {Record<string, string>} */
const PHASES = { hashing: "reading", uploading: "sending", held: "already here", done: "sent" };

/** Sending and preparing each have a pace of their own. */
let pace = new Pace();
let step = "";

/** @param {string} name @param {string} words @param {number | null} fraction */
function showStep(name, words, fraction) {
  if (name !== step) pace = new Pace();
  step = name;
  setText("creation-step", words);
  setBar("creation-bar", fraction);
  setText("creation-left", leftText(pace.left(fraction, performance.now())));
  titleProgress(fraction);
}

/** @param {any} state */
export function renderCreation(state) {
  if (byId("creation").hidden) return;
  const draft = state.draft;
  if (draft) {
    const words = draft.state === "queued" ? "Waiting for the server to begin…" : `Preparing: ${draft.step || "checking the files"}`;
    showStep(draft.step || draft.state, words, draft.total ? draft.done / draft.total : null);
  } else if (state.upload.length) {
    const total = state.upload.reduce((/** @type {number} */ sum, /** @type {any} */ file) => sum + file.totalBytes, 0);
    const done = state.upload.reduce((/** @type {number} */ sum, /** @type {any} */ file) => sum + (file.phase === "hashing" ? 0 : file.bytes), 0);
    showStep("sending", "Sending the files…", total ? done / total : null);
  }
  byId("creation-files").replaceChildren(
    ...state.upload.map((/** @type {any} */ file) => fileRow(file.fileName, file.error ?? `${PHASES[file.phase]} · ${bytesText(file.totalBytes)}`, file.totalBytes ? file.bytes / file.totalBytes : 1)),
  );
}
