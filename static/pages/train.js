// The participant's page: what this browser does now, and the few things its owner can decide.
import { renderDevice, wireDevice } from "./device.js";
import { ask } from "./dialogs.js";
import { byId, run, setBar, setText, show, showProblem, trainingApi } from "./dom.js";
import { bytesText, countText, durationText, partText, secondsText, shown, speedText } from "./format.js";
import { LiveChart } from "./live.js";
import { titleProgress } from "./progress.js";

/** @type {Record<string, string>} */
const NOW = {
  waiting: "Waiting for work",
  receiving: "Downloading what this round needs",
  preparing: "Loading the model",
  compiling: "Compiling for the GPU",
  training: "Training",
  uploading: "Sending the new weights",
  awaitingAggregation: "Done; waiting for the others",
  error: "This attempt failed; waiting for the next",
};

/** @param {any} participation */
function nowText(participation) {
  if (participation.job?.status === "completed") return "Nothing left to do";
  if (participation.replaced) return "Watching";
  if (participation.paused) return "Paused";
  return NOW[participation.stage] ?? participation.stage;
}

/** @param {any} participation */
function fraction(participation) {
  if (!participation.assignment || participation.paused) return 0;
  if (participation.stage === "receiving" || participation.stage === "preparing") return null;
  return participation.totalExamples ? participation.processedExamples / participation.totalExamples : null;
}

/** @param {any} state */
function renderFigures(state) {
  const participation = state.participation;
  const { assignment, job } = participation;
  setText("train-round", shown(assignment?.round ?? job.round));
  setText("train-examples", assignment ? `${countText(participation.processedExamples)} of ${countText(participation.totalExamples ?? assignment.exampleCount)}` : shown(null));
  setText("train-speed", speedText(participation.examplesPerSecond));
  setText("train-left", secondsText(participation.secondsLeft));
  setText("train-job-left", durationText(state.estimatedRemainingMs));
  setText("train-passes", `${shown(job.passesDone)} of ${shown(job.plannedPasses)}`);
  setText("train-chunk", assignment ? partText(assignment.chunkId, job.unit) : shown(null));
  setText("train-unit", job.unit?.label ?? "Examples");
  setText("train-counted", job.unit ? "Rounds of the job" : "Passes of the job");
  setText("train-part", job.unit ? "Part of this round" : "Part of the data");
  setBar("train-bar", fraction(participation));
  titleProgress(participation.stage === "training" ? fraction(participation) : null);
}

/** @param {any[]} transfers */
function renderTransfers(transfers) {
  const list = byId("train-transfers");
  list.replaceChildren(
    ...transfers.map((transfer) => {
      const item = document.createElement("li");
      const percent = transfer.totalBytes ? Math.floor((100 * transfer.bytes) / transfer.totalBytes) : 0;
      const word = transfer.direction === "send" ? "Sending" : "Receiving";
      item.textContent = `${word} ${bytesText(transfer.totalBytes)}: ${percent} %, ${secondsText(transfer.remainingSeconds)} left`;
      item.className = "small muted";
      return item;
    }),
  );
  list.hidden = transfers.length === 0;
}

/** @param {any} state */
function renderInvitations(state) {
  const list = byId("train-invitations");
  list.replaceChildren(
    ...state.invitations.map((/** @type {any} */ [, entry]) => {
      const item = document.createElement("li");
      item.textContent = `You opened an invitation to ${entry.invitation?.jobName ?? "a job"}. Open its link again to decide.`;
      return item;
    }),
  );
  list.hidden = state.invitations.length === 0;
}

/** @param {any} state */
function render(state) {
  const participation = state.participation;
  const job = participation.job;
  show("train-loading", false);
  show("train-none", !job);
  show("train-card", Boolean(job));
  show("train-device", true);
  showProblem("train-none-error", participation.error ?? state.error);
  if (!job) return renderInvitations(state);
  const completed = job.status === "completed";
  setText("train-job", job.name);
  setText("train-badge", completed ? "Completed" : job.status === "running" ? "Job is running" : `Job is ${job.status}`);
  byId("train-badge").className = `badge ${job.status === "running" ? "good" : job.status === "paused" ? "warn" : "accent"}`;
  show("train-replaced", participation.replaced);
  show("train-offline", !participation.connected && !participation.replaced);
  show("train-done", completed);
  showProblem("train-error", participation.error);
  setText("train-now", nowText(participation));
  setText("train-waiting", participation.stage === "training" || participation.replaced || completed ? "" : (participation.waitingFor ?? ""));
  show("train-bar", !completed);
  show("train-pause", !completed && !participation.replaced);
  setText("train-pause", participation.paused ? "Resume" : "Pause");
  renderFigures(state);
  renderTransfers(state.transfers);
  setText("train-peer", shown(state.myPeerId));
  return undefined;
}

/** @param {any} training */
function wire(training) {
  /** @param {string} id @param {() => Promise<unknown>} command */
  const onClick = (id, command) => {
    const button = /** @type {HTMLButtonElement} */ (byId(id));
    button.addEventListener("click", () => void run(button, "train-problem", command));
  };
  onClick("train-pause", () => (training.getState().participation.paused ? training.resumeContribution() : training.pauseContribution()));
  onClick("train-here", () => training.trainHere());
  onClick("train-leave", async () => {
    const { job } = training.getState().participation;
    const question = `Leave “${job?.name}”? Work under way here is given to somebody else. To come back, open the invitation link again.`;
    if (job?.status === "completed" || (await ask(question, { verb: "Leave the job" }))) await training.leave();
  });
}

async function start() {
  try {
    const training = await trainingApi();
    wire(training);
    wireDevice(training);
    const live = new LiveChart(undefined);
    live.start();
    training.subscribe((/** @type {any} */ state) => {
      render(state);
      renderDevice(state);
      live.accept(state);
    });
  } catch (error) {
    show("train-loading", false);
    show("train-card", true);
    showProblem("train-problem", error);
  }
}

void start();
