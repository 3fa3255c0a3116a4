// The page of one package: shows the fields that the choices ask for, says when the preview is old, and starts a job.
import { failureOfResponse, Http, Problem } from "../weei/net/http.js";
import { byId, setBar, setText, show, showProblem, trainingApi } from "./dom.js";

const DRAFT_POLL_MS = 500;
const csrf = document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";
const http = new Http({ base: location.origin, headers: () => ({ "X-CSRFToken": csrf }) });

/** `data-when="field=value"`: an element that counts only with that choice. @param {HTMLFormElement} form */
function syncChoices(form) {
  for (const element of form.querySelectorAll("[data-when]")) {
    const [name = "", value] = (element.getAttribute("data-when") ?? "").split("=");
    const input = form.elements.namedItem(name);
    /** @type {HTMLElement} */ (element).hidden = !(input instanceof HTMLSelectElement) || input.value !== value;
  }
}

/** @param {() => void} action */
function whenLoaded(action) {
  if (document.readyState === "complete") action();
  else addEventListener("load", () => setTimeout(action));
}

/** @param {HTMLFormElement} form */
function wireForm(form) {
  const before = new URLSearchParams(/** @type {any} */ (new FormData(form))).toString();
  const stale = document.getElementById("preview-stale");
  const old = stale ? !stale.hidden : false;
  form.addEventListener("input", () => {
    syncChoices(form);
    const now = new URLSearchParams(/** @type {any} */ (new FormData(form))).toString();
    if (stale) stale.hidden = !old && now === before;
  });
  syncChoices(form);
  const wrong = form.querySelector('[aria-invalid="true"]');
  // A browser that goes to the place an address names takes the focus away until the page is loaded.
  if (wrong instanceof HTMLElement) whenLoaded(() => wrong.focus());
}

/** @param {string} id @returns {Promise<any>} the draft when it has ended */
async function watchDraft(id) {
  for (;;) {
    const draft = await http.retried("GET", `/api/v1/drafts/${id}`);
    setText("start-step", draft.state === "queued" ? "Waiting for the server to begin…" : `Preparing the job: ${draft.step || "checking the files"}`);
    setBar("start-bar", draft.total ? draft.done / draft.total : null);
    if (draft.state === "done") return draft;
    if (draft.state === "failed") throw new Problem(422, { title: draft.error, code: draft.code });
    await new Promise((resolve) => setTimeout(resolve, DRAFT_POLL_MS));
  }
}

/** @param {HTMLFormElement} form */
async function startJob(form) {
  const button = /** @type {HTMLButtonElement} */ (byId("package-start"));
  button.disabled = true;
  showProblem("start-problem", null);
  setText("start-step", "Beginning…");
  show("start-progress", true);
  try {
    const response = await http.request(form.action, { method: "POST", headers: { ...http.headers(), Accept: "application/json" } });
    if (!response.ok) throw await failureOfResponse(response);
    if (response.redirected) throw new Error("Your session ended. Sign in again in another tab, then try again.");
    const { jobId } = await watchDraft((await response.json()).draftId);
    // This browser becomes the coordinator's device, unless it works for another job already.
    await (await trainingApi()).openJob(jobId).catch(() => {});
    location.assign(`${form.dataset["jobUrl"]}${jobId}/`);
  } catch (error) {
    show("start-progress", false);
    showProblem("start-problem", error);
    button.disabled = false;
  }
}

const form = document.getElementById("package-form");
if (form instanceof HTMLFormElement) wireForm(form);
const startForm = document.getElementById("start-form");
if (startForm instanceof HTMLFormElement) {
  startForm.addEventListener("submit", (event) => {
    event.preventDefault();
    void startJob(startForm);
  });
  // Off until now, so that this browser always becomes the job's device.
  /** @type {HTMLButtonElement} */ (byId("package-start")).disabled = false;
}
