// The invitation page: shows what a link is for and fetches nothing but that, until the person accepts.
import { byId, run, setText, show, showProblem, showText, trainingApi } from "./dom.js";
import { bytesText, countText, shown, unitsText } from "./format.js";
import { checkDevice } from "./requirements.js";

const root = byId("join");

/** @param {string} name @param {string} text */
function fact(name, text) {
  for (const element of document.querySelectorAll(`[data-fact="${name}"]`)) element.textContent = text;
}

/** @param {any} settings */
function aggregationText(settings) {
  const { method = "fedavg", ...options } = settings.aggregation ?? {};
  const label = { fedavg: "FedAvg", fedavgm: "FedAvgM", fedadam: "FedAdam" }[/** @type {string} */ (method)] ?? method;
  const given = Object.entries(options).map(([name, value]) => `${name} ${value}`);
  return [label, ...given].join(", ");
}

/** @param {any} needs */
function requirementsText(needs) {
  const parts = [...(needs.requiredFeatures ?? [])];
  if (typeof needs.estimatedWorkingBytes === "number") parts.push(`about ${bytesText(needs.estimatedWorkingBytes)} of memory`);
  return parts.length ? parts.join(", ") : "nothing beyond WebAssembly";
}

/** What is fetched beside module, weights and data. @param {any[]} files slots that files fill @param {any[]} declared all slots of the model */
function auxiliaryTexts(files, declared) {
  const snapshots = declared.filter((slot) => slot.source);
  const named = files.map((slot) => `${slot.id} (${bytesText(slot.bytes)})`);
  if (!snapshots.length) return named;
  const bytes = snapshots.reduce((sum, slot) => sum + slot.bytes, 0);
  return [...named, `${snapshots.length === 1 ? "an earlier checkpoint" : `${snapshots.length} earlier checkpoints`} (${bytesText(bytes)}) in a round at most`];
}

/** @param {any} modelInfo @param {any} settings */
function workersText(modelInfo, settings) {
  const most = modelInfo.workSource?.inputs === "none" ? Math.min(settings.workers ?? 1, modelInfo.maxWorkers ?? 1) : 1;
  return most > 1 ? `up to ${most} of this device's cores; you can allow fewer later` : "one core of this device";
}

/** What the model plays or reads. @param {any} invitation */
function renderWork({ modelInfo, settings, data, auxiliary }) {
  const { workSource, auxiliaryWeights = [] } = modelInfo;
  const unit = workSource?.unit;
  const own = workSource?.inputs === "none";
  const count = settings.experience?.unitsPerAssignment ?? workSource?.unitsPerAssignment?.default;
  const besides = auxiliaryTexts(auxiliary ?? [], auxiliaryWeights);
  show("join-makes", own);
  show("join-reads", !own);
  show("join-also", besides.length > 0);
  fact("units", `${countText(count)} ${unitsText(unit)}`);
  fact("largest", bytesText(data?.largestChunkBytes));
  fact("auxiliary", besides.length ? besides.join(", ") : "nothing else");
  const dataText = data ? `${countText(data.chunks)} chunks, ${countText(data.examples)} examples, ${bytesText(data.bytes)} in all` : "none";
  fact("data", own ? `none: the model makes ${unitsText(unit)} on each device` : dataText);
  fact("epochs-label", workSource ? "Rounds" : "Passes");
  fact("epochs", shown(settings.epochs ?? settings.rounds));
  const rate = settings.learningRate === undefined ? "its own learning rate" : `learning rate ${settings.learningRate}`;
  const each = own ? [`${countText(count)} ${unitsText(unit)}`] : [];
  fact("local", [...each, `${shown(settings.localEpochs)} local epoch${settings.localEpochs === 1 ? "" : "s"}`, `batches of ${shown(settings.batchSize)}`, rate].join(", "));
  fact("workers", workersText(modelInfo, settings));
}

/** @param {any} invitation */
function render(invitation) {
  const { modelInfo, module, settings } = invitation;
  setText("join-title", invitation.jobName ?? modelInfo.name);
  setText("join-from", invitation.coordinator ? `Coordinator: ${invitation.coordinator}` : "");
  fact("model", `${shown(modelInfo.name)} ${modelInfo.version ?? ""}`);
  fact("module", `${module.fileName}, ${bytesText(module.bytes)}`);
  fact("module-size", bytesText(module.bytes));
  fact("sha", module.sha256);
  fact("weights", bytesText(invitation.weightBytes));
  renderWork(invitation);
  fact("aggregation", aggregationText(settings));
  fact("metrics", (modelInfo.metrics ?? []).map((/** @type {any} */ metric) => metric.label).join(", ") || "none");
  fact("requirements", requirementsText(invitation.requirements ?? {}));
  const device = checkDevice(invitation.requirements ?? {});
  const words = [...device.missing, ...device.doubts];
  byId("join-device").className = `note ${device.missing.length ? "bad" : "warn"}`;
  showText("join-device", words.length ? words.join(" ") : null);
  /** @type {HTMLButtonElement} */ (byId("join-accept")).disabled = device.missing.length > 0;
}

/** @param {any} training @param {string} jobId */
function wire(training, jobId) {
  const accept = /** @type {HTMLButtonElement} */ (byId("join-accept"));
  const decline = /** @type {HTMLButtonElement} */ (byId("join-decline"));
  accept.addEventListener("click", () =>
    run(accept, "join-problem", async () => {
      await training.decideInvitation(jobId, true);
      location.assign(root.dataset["trainUrl"] ?? "/train/");
    }),
  );
  decline.addEventListener("click", () =>
    run(decline, "join-problem", async () => {
      await training.decideInvitation(jobId, false);
      show("join-choice", false);
      showText("join-outcome", "You declined. Nothing was downloaded. Open the link again if you change your mind.");
    }),
  );
}

async function start() {
  try {
    const training = await trainingApi();
    const opened = await training.openInvitation(root.dataset["token"]);
    const invitation = opened.invitation ?? opened;
    render(invitation);
    wire(training, invitation.jobId ?? opened.jobId);
    show("join-loading", false);
    show("join-card", true);
  } catch (error) {
    showProblem("join-reason", error);
    show("join-loading", false);
    show("join-invalid", true);
  }
}

void start();
