/** A job of one's own: a new one, one that goes on from a checkpoint, or a saved one. The site's pages offer more settings. */
import { bytesText } from "../../pages/format.js";
import { h, labelled, setBar, setText } from "./dom.js";

/** @param {HTMLInputElement} input @param {string} problem @returns {File} */
function chosen(input, problem) {
  const file = input.files?.[0];
  if (!file) throw new Error(problem);
  return file;
}

const number = (/** @type {string} */ value) => h("input", { type: "number", min: "1", step: "1", value });

/** @param {import("./window.js").Parts} parts */
function fields({ base }) {
  const wasm = h("input", { type: "file", accept: ".wasm" });
  const manifest = h("input", { type: "file", accept: ".json" });
  const files = h("input", { type: "file", multiple: true });
  const checkpoint = h("input", { type: "file", accept: ".weei-checkpoint" });
  const resume = h("input", { type: "checkbox", checked: true });
  const [epochs, batchSize, units] = [number("3"), number("32"), number("32")];
  const takesPart = h("input", { type: "checkbox", checked: true });
  const element = h(
    "div",
    {},
    labelled("Model module (.wasm)", wasm),
    labelled("Manifest (.json)", manifest, "The dataset's list of chunks, or the manifest of a model package"),
    labelled("Dataset files", files, "None for a model that makes its own data"),
    labelled("Checkpoint to continue from", checkpoint, "None for a new job"),
    h("label", { className: "check" }, resume, "With a checkpoint, restore the saved dataset progress"),
    labelled("Passes over the data, or rounds", epochs),
    labelled("Batch size", batchSize),
    labelled("Units per assignment", units, "For a model that makes its own data only"),
    h("label", { className: "check" }, takesPart, "This browser trains too"),
    h("p", {}, h("a", { href: `${base}/jobs/new/` }, "All settings are on the site's own page")),
  );
  const read = () => {
    const settings = { epochs: epochs.valueAsNumber, localEpochs: 1, batchSize: batchSize.valueAsNumber, coordinatorParticipates: takesPart.checked };
    const chunks = [...(files.files ?? [])];
    const common = { wasm: chosen(wasm, "Choose the model's module."), manifest: chosen(manifest, "Choose the manifest."), files: chunks };
    const own = chunks.length === 0 ? { experience: { unitsPerAssignment: units.valueAsNumber } } : {};
    return { ...common, settings: { ...settings, ...own }, checkpoint: checkpoint.files?.[0], datasetMode: /** @type {"resume" | "new"} */ (resume.checked ? "resume" : "new") };
  };
  return { element, read };
}

/** @param {import("../weei.js").TrainingState} state */
function stepText({ draft, upload }) {
  if (draft) return draft.step ? `Preparing: ${draft.step}.` : "Waiting for the server to begin.";
  const total = upload.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
  return total ? `Sending ${bytesText(total)}.` : "Reading the files.";
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function createSection(parts) {
  const { training, buttons, base } = parts;
  const { element: form, read } = fields(parts);
  const step = h("p", { role: "status" });
  const bar = h("progress", { max: 1, "aria-label": "Progress of creating the job" });
  const working = h("div", {}, step, bar);
  const create = buttons.button("Create", async () => {
    const { checkpoint, datasetMode, ...files } = read();
    await (checkpoint ? training.continueFromCheckpoint({ ...files, checkpoint, datasetMode }) : training.createJob(files));
  }, { className: "main" });
  const saved = h("ul");
  const look = buttons.button("Show saved jobs", async () => {
    const jobs = await training.listSavedJobs();
    const rows = jobs.map(({ id, name, status }) =>
      h("li", { className: "row" }, h("span", { className: "grow" }, `${name}, ${status}`), buttons.button("Open", () => training.openJob(id), { label: `Open ${name}` })),
    );
    saved.replaceChildren(...(rows.length ? rows : [h("li", {}, "There are none.")]));
  });
  const element = h(
    "section",
    { "aria-label": "A job of your own" },
    h("p", {}, "Open an invitation link to take part in somebody's job, or coordinate one of your own. Coordinators ", h("a", { href: `${base}/sign-in/` }, "sign in"), " first."),
    h("details", {}, h("summary", {}, "Create or continue a job"), form, create, working),
    h("details", {}, h("summary", {}, "Saved jobs"), look, saved),
  );
  return {
    element,
    render(state) {
      element.hidden = Boolean(state.job);
      working.hidden = !state.preparing;
      setText(step, state.preparing ? stepText(state) : "");
      setBar(bar, state.draft?.total ? state.draft.done / state.draft.total : null);
    },
  };
}
