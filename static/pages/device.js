// The settings of this device, and beside each what is really used.
import { byId, setText, showProblem } from "./dom.js";
import { DASH, shown } from "./format.js";
import { MODES } from "./words.js";

/** @typedef {import("../weei/weei.js").TrainingState} TrainingState */
/** @typedef {import("../weei/weei.js").DistributedTraining} DistributedTraining */

/** @param {TrainingState} state */
export function usedTexts({ job, execution, diagnostics, myPeerId }) {
  const mode = MODES[execution.actual] ?? DASH;
  return {
    workers: job ? workersText(job.localWorkers) : "",
    backend: execution.fallback ? `${mode}, because: ${execution.fallback}` : mode,
    gpu: gpuText(diagnostics[myPeerId]?.gpu),
  };
}

/** @param {import("../weei/weei.js").TrainingJob["localWorkers"]} of */
const workersText = ({ requested, capacity, effective }) =>
  `(${effective} for the next assignment: the job asks for ${requested}; its model and this device allow ${capacity})`;

/** @param {import("../weei/weei.js").PeerExecutionDiagnostics["gpu"] | undefined} gpu none: this browser takes part in nothing */
function gpuText(gpu) {
  if (!gpu) return DASH;
  if (gpu.webgpu === "unavailable") return "this browser has no WebGPU";
  const names = gpu.adapter === "unknown" ? [] : Object.values(gpu.adapter).filter((name) => shown(name) !== DASH);
  const name = [...new Set(names)].join(" ");
  const { initializationError: error } = gpu;
  if (error !== null && error !== "unknown") return name ? `${name}. ${error}` : error;
  return `${name || "adapter not named"}, ${error === null ? "ready" : "not tried yet"}`;
}

/** @param {DistributedTraining} training */
export function wireDevice(training) {
  const workers = /** @type {HTMLInputElement} */ (byId("workers"));
  const backend = /** @type {HTMLSelectElement} */ (byId("backend"));
  const memory = /** @type {HTMLInputElement} */ (byId("gpu-memory"));
  // An empty field is no number.
  onChange(workers, () => training.setMaxLocalWorkers(workers.valueAsNumber));
  onChange(backend, () => training.setBackendPreference(/** @type {import("../weei/weei.js").BackendPreference} */ (backend.value)));
  onChange(memory, () => training.setGpuMemoryBudgetMiB(memory.valueAsNumber));
}

/** A refusal is said below the field, which keeps what was typed. @param {HTMLInputElement | HTMLSelectElement} field @param {() => Promise<void>} save */
function onChange(field, save) {
  field.addEventListener("change", async () => {
    field.dataset["saving"] = "";
    try {
      await save();
      field.removeAttribute("aria-invalid");
      showProblem(`${field.id}-problem`, null);
    } catch (error) {
      field.setAttribute("aria-invalid", "true");
      showProblem(`${field.id}-problem`, error);
    } finally {
      delete field.dataset["saving"];
    }
  });
}

/** What a person types into, or was refused, is not overwritten by the next change of state. @param {string} id @param {string | number} value */
function setField(id, value) {
  const field = /** @type {HTMLInputElement | HTMLSelectElement} */ (byId(id));
  const own = document.activeElement === field || field.matches("[data-saving], [aria-invalid]");
  if (!own) field.value = String(value);
}

/** @param {TrainingState} state */
export function renderDevice(state) {
  setField("workers", state.maxLocalWorkers);
  setField("backend", state.backendPreference);
  setField("gpu-memory", state.gpuMemoryBudgetMiB);
  const used = usedTexts(state);
  setText("train-workers", shown(state.activeWorkers));
  setText("workers-used", used.workers);
  setText("backend-used", used.backend);
  setText("gpu-memory-used", used.gpu);
}
