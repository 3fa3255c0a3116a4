// The job page: the charts, this browser's part, and the diagnostics card. Everything else is HTMX.
import { ChartFeed } from "./chart.js";
import { ask } from "./dialogs.js";
import { renderDevice, wireDevice } from "./device.js";
import { DiagnosticsCard } from "./diagnostics/card.js";
import { byId, run, setBar, setText, show, showProblem, trainingApi } from "./dom.js";
import { countText, partText, speedText, unitsText } from "./format.js";
import { LiveChart } from "./live.js";
import "./settings_form.js";

const jobId = byId("this-browser").dataset["job"];

/** @param {any} participation */
function stageText(participation) {
  if (participation.replaced) return "Another tab of this browser trains for this job.";
  if (participation.paused) return "This browser's part is paused.";
  if (participation.stage === "training") {
    const unit = participation.job?.unit;
    return `Training ${partText(participation.assignment?.chunkId, unit)}: ${countText(participation.processedExamples)} of ${countText(participation.totalExamples)} ${unitsText(unit)}, ${speedText(participation.examplesPerSecond)}.`;
  }
  return participation.waitingFor ?? `This browser takes part: ${participation.stage}.`;
}

/** @param {any} state */
function renderThisBrowser(state) {
  const participation = state.participation;
  const job = participation.job;
  const here = job?.id === jobId;
  showProblem("device-problem", participation.error);
  setText("device-state", here ? stageText(participation) : job ? `This browser works for another job: ${job.name}.` : "This browser takes no part in this job.");
  show("device-open", !here && !job);
  show("device-note", !here && !job);
  show("device-take", here && participation.replaced);
  show("device-leave", here);
  const training = here && participation.stage === "training" && participation.totalExamples;
  show("device-bar", Boolean(training));
  if (training) setBar("device-bar", participation.processedExamples / participation.totalExamples);
}

/** @param {any} training */
function wire(training) {
  /** @param {string} id @param {() => Promise<unknown>} command */
  const onClick = (id, command) => {
    const button = /** @type {HTMLButtonElement} */ (byId(id));
    button.addEventListener("click", () => void run(button, "device-problem", command));
  };
  onClick("device-open", () => training.openJob(jobId));
  onClick("device-take", () => training.trainHere());
  onClick("device-leave", async () => {
    if (!(await ask("Detach this browser? The job goes on; this browser no longer trains for it.", { verb: "Detach this browser" }))) return;
    await training.leave();
    await training.watch(jobId);
  });
}

async function start() {
  const feed = new ChartFeed();
  void feed.refresh();
  for (const name of ["weei:checkpoints", "weei:status"]) document.addEventListener(name, () => void feed.refresh());
  // A panel that was polled and has changed says the same as a hint.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (/** @type {CustomEvent} */ (event).detail.target.id === "panel-checkpoints") void feed.refresh();
  });
  const diagnostics = new DiagnosticsCard();
  diagnostics.start();
  const live = new LiveChart(jobId);
  live.start();
  const training = await trainingApi();
  wire(training);
  wireDevice(training);
  training.subscribe((/** @type {any} */ state) => {
    renderThisBrowser(state);
    renderDevice(state);
    diagnostics.accept(state);
    live.accept(state);
  });
}

start().catch((error) => showProblem("device-problem", error));
