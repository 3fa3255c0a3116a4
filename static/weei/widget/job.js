/** The job: what it does now, how far it is, and what its coordinator can decide. */
import { countText, secondsText, shown } from "../../pages/format.js";
import { fact, h, setBar, setRows, setText } from "./dom.js";

/** @typedef {import("../weei.js").TrainingJob} TrainingJob */

/** @param {TrainingJob} job @returns {number | null} */
function fraction({ status, progress, info, round }) {
  if (status === "completed") return 1;
  if (!progress || !progress.plannedEpochs) return null;
  if (info.workSource) return Math.max(0, round - 1) / progress.plannedEpochs;
  const inPass = progress.totalChunks ? 1 - progress.remainingChunks / progress.totalChunks : 0;
  return (progress.datasetEpoch + inPass) / progress.plannedEpochs;
}

/** @param {TrainingJob} job @param {number | undefined} remainingMs @returns {Array<[string, string]>} */
function figures({ info, round, progress, status }, remainingMs) {
  const passes = info.workSource ? "Rounds" : "Passes";
  return [
    ["Round", countText(round)],
    [passes, `${shown(progress?.datasetEpoch)} of ${shown(progress?.plannedEpochs)}`],
    ...(info.workSource ? [] : [/** @type {[string, string]} */ (["Chunks left in this pass", `${countText(progress?.remainingChunks)} of ${countText(progress?.totalChunks)}`])]),
    ...(status === "completed" ? [] : [/** @type {[string, string]} */ (["Time left", secondsText(remainingMs === undefined ? undefined : remainingMs / 1000)])]),
  ];
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function jobSection({ training, buttons, base }) {
  const status = h("p", { role: "status" });
  const bar = h("progress", { max: 1, "aria-label": "Progress of the job" });
  const facts = h("dl");
  const error = h("p", { className: "problem", role: "alert" });
  const start = buttons.button("Start", () => training.start(), { className: "main" });
  const pause = buttons.button("Pause job", () => training.pause());
  const resume = buttons.button("Resume job", () => training.resume(), { className: "main" });
  const finish = buttons.button("Finish now", () => training.finish());
  const page = h("a", {}, "Open the job's page");
  const commands = h("div", { className: "row" }, start, pause, resume, finish, page);
  const element = h("section", { "aria-label": "Job" }, status, bar, facts, error, commands);
  return {
    element,
    render({ job, estimatedRemainingMs, transitioning, evaluating }) {
      element.hidden = !job;
      if (!job) return;
      const doing = [transitioning ? "Merging updates." : "", evaluating ? "Validation runs." : ""].filter(Boolean);
      setText(status, [job.waitingFor, ...doing].join(" "));
      setBar(bar, fraction(job));
      setRows(facts, figures(job, estimatedRemainingMs), ([name, value]) => fact(name, value));
      setText(error, job.error ?? "");
      error.hidden = !job.error;
      commands.hidden = job.role !== "coordinator";
      start.hidden = job.status !== "ready";
      pause.hidden = job.status !== "running";
      resume.hidden = job.status !== "paused";
      finish.hidden = job.status === "completed" || job.status === "ready";
      page.href = `${base}/jobs/${job.id}/`;
    },
  };
}
