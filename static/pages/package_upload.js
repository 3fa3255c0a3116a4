// The list of packages: hashes and uploads the chosen data file, and goes to the page of what becomes of it.
import { FileUploads } from "../weei/jobs/uploads.js";
import { failureOfResponse, Http } from "../weei/net/http.js";
import { byId, setBar, setText, show, showProblem } from "./dom.js";
import { bytesText } from "./format.js";
import { leftText, Pace, titleProgress } from "./progress.js";

const form = /** @type {HTMLFormElement} */ (byId("upload-form"));
const csrf = document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";
const http = new Http({ base: location.origin, headers: () => ({ "X-CSRFToken": csrf }) });
/** @type {AbortController | null} */
let uploading = null;

/** Beside the field. @param {unknown} problem an error or a sentence; null: none */
function refuse(problem) {
  showProblem("source-problem", problem);
  const input = byId("source");
  input.setAttribute("aria-invalid", String(Boolean(problem)));
  if (problem) input.focus();
}

/** @param {boolean} busy */
function showBusy(busy) {
  show("upload-progress", busy);
  show("upload-stop", busy);
  /** @type {HTMLButtonElement} */ (byId("upload")).disabled = busy;
  if (!busy) titleProgress(null);
}

const paces = { hashing: new Pace(), uploading: new Pace() };

/** @param {import("../weei/jobs/uploads.js").FileProgress} file */
function renderProgress({ phase, bytes, totalBytes }) {
  const fraction = totalBytes ? bytes / totalBytes : 1;
  setText("upload-left", leftText(paces[phase === "hashing" ? "hashing" : "uploading"].left(fraction, performance.now())));
  titleProgress(phase === "uploading" ? fraction : null);
  setText("upload-step", phase === "hashing" ? "Reading the file…" : `Sending the file: ${bytesText(bytes)} of ${bytesText(totalBytes)}`);
  setBar("upload-bar", fraction);
}

/** @param {File} file @param {AbortSignal} signal @returns {Promise<string>} the address of the new package */
async function send(file, signal) {
  const uploads = new FileUploads([file], { http, signal, changed: ([progress]) => progress && renderProgress(progress) });
  const [sent] = await uploads.run();
  const body = new FormData();
  body.set("fileName", file.name);
  body.set("sha256", sent?.sha256 ?? "");
  body.set("format", /** @type {HTMLSelectElement} */ (byId("format")).value);
  const response = await http.request(form.action, { method: "POST", headers: http.headers(), body, signal });
  if (!response.ok) throw await failureOfResponse(response);
  if (response.redirected) throw new Error("Your session ended. Sign in again in another tab, then try again.");
  return (await response.json()).url;
}

async function submit() {
  const [file] = /** @type {HTMLInputElement} */ (byId("source")).files ?? [];
  if (!file) return refuse("Choose a data file first.");
  if (file.size === 0) return refuse("The file is empty: choose one that holds data.");
  const abort = new AbortController();
  uploading = abort;
  refuse(null);
  showBusy(true);
  try {
    location.assign(await send(file, abort.signal));
  } catch (error) {
    showBusy(false);
    if (!abort.signal.aborted) refuse(error);
  }
  return undefined;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void submit();
});
byId("upload-stop").addEventListener("click", () => {
  uploading?.abort(new Error("The upload was stopped."));
  byId("upload").focus();
});
// Sent before this script was there, the form would lose the file: until now its button was off.
showBusy(false);
// What was stopped by going back to this page can be begun again.
addEventListener("pageshow", () => showBusy(false));
