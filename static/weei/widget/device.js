/** What this device does now, and what its owner can decide. */
import { countText, partText, secondsText, speedText, unitsText } from "../../pages/format.js";
import { h, labelled, setBar, setText } from "./dom.js";

/** @type {Record<import("../weei.js").Stage, string>} */
const STAGES = {
  waiting: "Waiting for work.",
  receiving: "Downloading what this round needs.",
  preparing: "Loading the model.",
  compiling: "Compiling for the GPU.",
  training: "Training.",
  uploading: "Sending the new weights.",
  awaitingAggregation: "Done; waiting for the others.",
  error: "This attempt failed; waiting for the next.",
};

/** @param {import("../weei.js").Participation} participation */
function nowText(participation) {
  const { job, replaced, paused, connected, stage, waitingFor } = participation;
  if (job?.status === "completed") return "Nothing left to do.";
  if (replaced) return "Another tab of this browser trains now.";
  if (paused) return "Your contribution is paused.";
  if (!connected) return "No connection to the server; trying again.";
  return stage === "waiting" && waitingFor ? waitingFor : STAGES[stage];
}

/** @param {import("../weei.js").Participation} participation */
function workText({ assignment, job, processedExamples, totalExamples, examplesPerSecond, secondsLeft }) {
  if (!assignment) return "";
  const done = `${countText(processedExamples)} of ${countText(totalExamples ?? assignment.exampleCount)} ${unitsText(job?.unit)}`;
  const known = (/** @type {unknown} */ value) => typeof value === "number";
  const speed = known(examplesPerSecond) ? [speedText(examplesPerSecond)] : [];
  const left = known(secondsLeft) ? [`${secondsText(secondsLeft)} left`] : [];
  return `${partText(assignment.chunkId, job?.unit)}: ${[done, ...speed, ...left].join(", ")}`;
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function deviceSection({ training, buttons }) {
  const now = h("p", { role: "status" });
  const work = h("p", { className: "muted" });
  const bar = h("progress", { max: 1, "aria-label": "Progress of this device's part" });
  const problem = h("p", { className: "problem" });
  const pause = buttons.button("Pause", () => training.pauseContribution(), { label: "Pause this device's contribution" });
  const resume = buttons.button("Resume", () => training.resumeContribution(), { label: "Resume this device's contribution", className: "main" });
  const here = buttons.button("Train here instead", () => training.trainHere(), { className: "main" });
  const leave = buttons.button("Leave", () => training.leave(), { label: "Leave the job with this browser" });
  const element = h("section", { "aria-label": "This device" }, h("h3", {}, "This device"), now, work, bar, problem, h("div", { className: "row" }, pause, resume, here, leave));
  return {
    element,
    render({ participation }) {
      const { job, paused, replaced, assignment, processedExamples, totalExamples, error } = participation;
      element.hidden = !job;
      if (!job) return;
      const working = Boolean(assignment) && !paused && !replaced;
      const ended = job.status === "completed" || replaced;
      setText(now, nowText(participation));
      setText(work, working ? workText(participation) : "");
      work.hidden = bar.hidden = !working;
      setBar(bar, totalExamples ? processedExamples / totalExamples : null);
      setText(problem, error ?? "");
      problem.hidden = !error;
      pause.hidden = paused || ended;
      resume.hidden = !paused || ended;
      here.hidden = !replaced;
    },
  };
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function settingsSection({ training, buttons }) {
  const workers = h("input", { type: "number", min: "1", max: "64", step: "1" });
  const backend = h("select", {}, ...["auto", "cpu", "gpu", "hybrid"].map((value) => h("option", { value }, value === "auto" ? "Automatic" : value.toUpperCase().replace("HYBRID", "Hybrid"))));
  const memory = h("input", { type: "number", min: "1", step: "1" });
  const save = buttons.button("Save", async () => {
    await training.setMaxLocalWorkers(workers.valueAsNumber);
    await training.setBackendPreference(/** @type {import("../weei.js").BackendPreference} */ (backend.value));
    await training.setGpuMemoryBudgetMiB(memory.valueAsNumber);
    edited = false;
  });
  let edited = false;
  const fields = [labelled("Workers at most", workers), labelled("Compute on", backend), labelled("GPU memory at most, MiB", memory)];
  const form = h("div", { oninput: () => (edited = true) }, ...fields, save);
  const element = h("section", { "aria-label": "Settings of this device" }, h("details", {}, h("summary", {}, "Settings of this device"), form));
  return {
    element,
    // What somebody is typing is not overwritten.
    render({ maxLocalWorkers, backendPreference, gpuMemoryBudgetMiB }) {
      if (edited) return;
      workers.value = String(maxLocalWorkers);
      backend.value = backendPreference;
      memory.value = String(gpuMemoryBudgetMiB);
    },
  };
}
