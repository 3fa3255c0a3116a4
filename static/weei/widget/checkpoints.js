/** The newest checkpoints, with their figures and, for the coordinator, as files. */
import { bytesText } from "../../pages/format.js";
import { h, setRows } from "./dom.js";

const SHOWN = 5;

/** Hand a File over to the person. @param {File} file */
function save(file) {
  const url = URL.createObjectURL(file);
  h("a", { href: url, download: file.name }).click();
  // The browser reads it after this turn.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** @param {number | undefined} value */
const figure = (value) => (value === undefined ? "—" : String(Number(value.toPrecision(4))));

/** @param {import("../weei.js").TrainingJob} job */
function rows({ role, checkpoints, info }) {
  return checkpoints.slice(-SHOWN).reverse().map(({ artifact, metrics, validationMetrics }) => ({
    round: artifact.round,
    mayDownload: role === "coordinator",
    size: bytesText(artifact.bytes),
    figures: info.metrics.map(({ id, label }) => {
      const checked = validationMetrics ? ` (validation ${figure(validationMetrics.values[id])})` : "";
      return `${label} ${figure(metrics.values[id])}${checked}`;
    }),
  }));
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function checkpointsSection({ training, buttons }) {
  const list = h("ul");
  const element = h("section", { "aria-label": "Checkpoints" }, h("h3", {}, "Checkpoints"), list);
  /** @param {ReturnType<typeof rows>[number]} of */
  const row = ({ round, mayDownload, size, figures }) => {
    const download = buttons.button("Download", async () => save(await training.exportCheckpoint(round)), { label: `Download the checkpoint of round ${round}, ${size}` });
    return h("li", { className: "row" }, h("span", { className: "grow" }, `Round ${round}: ${figures.join(", ") || "no metrics"}`), mayDownload ? download : null);
  };
  return {
    element,
    render({ job }) {
      element.hidden = !job?.checkpoints.length;
      if (job) setRows(list, rows(job), row);
    },
  };
}
