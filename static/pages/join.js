// The invitation page: shows what a link is for and fetches nothing but that, until the person accepts.
import { byId, run, setText, show, showText, trainingApi } from "./dom.js";
import { bytesText, countText, shown } from "./format.js";
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

/** @param {any} invitation */
function render(invitation) {
  const { modelInfo, module, settings, data } = invitation;
  setText("join-title", invitation.jobName ?? modelInfo.name);
  setText("join-from", invitation.coordinator ? `Coordinator: ${invitation.coordinator}` : "");
  fact("model", `${shown(modelInfo.name)} ${modelInfo.version ?? ""}`);
  fact("module", `${module.fileName}, ${bytesText(module.bytes)}`);
  fact("module-size", bytesText(module.bytes));
  fact("sha", module.sha256);
  fact("weights", bytesText(invitation.weightBytes));
  fact("largest", bytesText(data?.largestChunkBytes));
  fact("data", data ? `${countText(data.chunks)} chunks, ${countText(data.examples)} examples, ${bytesText(data.bytes)} in all` : "none");
  const auxiliary = (invitation.auxiliary ?? []).map((/** @type {any} */ slot) => `${slot.id} (${bytesText(slot.bytes)})`);
  fact("auxiliary", auxiliary.length ? auxiliary.join(", ") : "nothing else");
  fact("epochs", shown(settings.epochs ?? settings.rounds));
  fact("local", `${shown(settings.localEpochs)} local epochs, batches of ${shown(settings.batchSize)}, learning rate ${settings.learningRate ?? "of the model"}`);
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
    setText("join-reason", error instanceof Error ? error.message : String(error));
    show("join-loading", false);
    show("join-invalid", true);
  }
}

void start();
