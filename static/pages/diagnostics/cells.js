// The texts of one participant's row; the same as jobs/selectors/diagnosis.py writes, and tests/golden/card.json holds both to
// the same words. What a peer could not determine is a dash.
import { ageText, bytesText, countText, DASH, durationText, shown, speedText } from "../format.js";
import { MODES, stateWord } from "../words.js";

/** @typedef {import("../../weei/weei.js").PeerExecutionDiagnostics} Entry */
/** @typedef {{peerId: string, label: string, state: string, error?: string}} Person */
/** By the names that stand in the template as `data-slot`; the numbers are to sort by.
 * @typedef {{peer: string, cells: Record<string, string>, tones: Record<string, string>, speed: number | null, age: number | null}} Row */

/**
 * @param {Person} person @param {Entry | undefined} entry none: this one has told nothing yet
 * @param {string} differs in what from most of the others @param {string} units what an assignment counts, inside a sentence
 * @returns {Row}
 */
export function rowOf(person, entry, differs, units) {
  const [state, stateTone] = stateWord(entry?.connected ? entry.stage : person.state);
  const [fresh, freshTone] = freshness(entry);
  const cells = {
    name: person.label || "Unnamed device",
    id: person.peerId.slice(0, 8),
    differs,
    state,
    error: entry?.error || person.error || "",
    fresh,
    ...(entry ? { ...device(entry, person.label), ...work(entry, units), ...details(entry, units) } : NOTHING),
  };
  const tones = { state: stateTone, fresh: freshTone };
  return { peer: person.peerId, cells, tones, speed: entry?.performance.currentExamplesPerSecond ?? null, age: entry?.ageMs ?? null };
}

/** @param {Entry | undefined} entry @returns {[text: string, tone: string]} */
function freshness(entry) {
  if (!entry) return ["No report yet", ""];
  if (!entry.connected) return [`Disconnected, ${ageText(entry.ageMs)} old`, "warn"];
  return entry.stale ? [`Stale, ${ageText(entry.ageMs)} old`, "warn"] : ["Live", "good"];
}

/** @param {string | null} mode */
const modeText = (mode) => (mode && Object.hasOwn(MODES, mode) ? /** @type {string} */ (MODES[mode]) : shown(mode));

/** @param {Entry} entry @param {string} label */
function device({ environment, execution, gpu }, label) {
  const system = systemText(environment);
  const [active, limit] = [shown(execution.activeWorkers), shown(execution.workerLimit)];
  const reason = execution.fallbackReason;
  return {
    system: system === label ? "" : system,
    mode: modeText(execution.actual),
    why: reason && reason !== "unknown" ? `${modeText(execution.requested)} was asked for: ${reason}` : "",
    workers: active === DASH && limit === DASH ? DASH : `${active} of ${limit}`,
    gpu: gpuText(gpu),
  };
}

/** @param {Entry["environment"]} environment */
function systemText({ browser, browserVersion, os }) {
  const name = [browser, browserVersion].filter((text) => text !== "unknown").join(" ") || DASH;
  return os === "unknown" ? name : `${name} on ${os}`;
}

/** @param {Entry["gpu"]} gpu */
function gpuText({ webgpu, adapter }) {
  if (webgpu === "unavailable") return "no WebGPU";
  const names = adapter === "unknown" ? [] : Object.values(adapter).filter((text) => shown(text) !== DASH);
  return [...new Set(names)].join(" ") || DASH;
}

/** @param {Entry} entry @param {string} units */
function work({ assignment, stage, timings, performance }, units) {
  return {
    work: assignment ? `round ${shown(assignment.round)}, ${shown(assignment.chunkId)}` : DASH,
    done: assignment ? doneText(stage, performance, units) : "",
    prepared: durationText(timings.preparationMs),
    compiled: durationText(timings.compilationMs),
    trained: durationText(timings.trainingMs),
    sent: durationText(timings.uploadMs),
    speed: speedText(performance.currentExamplesPerSecond),
    average: speedText(performance.averageExamplesPerSecond),
  };
}

/** @param {string} stage @param {Entry["performance"]} performance @param {string} units */
function doneText(stage, { processedExamples, totalExamples, currentExamplesPerSecond: rate }, units) {
  const text = `${countText(processedExamples)} of ${countText(totalExamples)} ${units}`;
  if (stage !== "training" || !rate || typeof processedExamples !== "number" || typeof totalExamples !== "number") return text;
  return `${text}, about ${ageText((1000 * (totalExamples - processedExamples)) / rate)} left`;
}

/** @param {Entry} entry @param {string} units */
function details({ environment, execution, gpu, model, assignment, performance }, units) {
  return {
    settings: assignment
      ? `batch size ${shown(assignment.batchSize)}, local epochs ${shown(assignment.localEpochs)}, learning rate ${shown(assignment.learningRate)}`
      : DASH,
    size: assignment ? `${countText(assignment.exampleCount)} ${units}, ${bytesText(assignment.bytes)}` : DASH,
    assignment: shown(assignment?.assignmentId),
    attempt: shown(assignment?.attemptId),
    steps: countText(performance.optimizerSteps),
    cores: shown(environment.logicalCores),
    backend: `${shown(execution.backend)}, asked for: ${modeText(execution.requested)}`,
    webgpu: shown(gpu.webgpu),
    adapter: gpu.webgpu === "available" ? gpuText(gpu) : DASH,
    budget: shown(gpu.memoryBudgetMiB) === DASH ? DASH : `${gpu.memoryBudgetMiB} MiB`,
    // null is a success; what was never tried is unknown.
    attempted: gpu.initializationError === null ? "ready" : shown(gpu.initializationError),
    ...modelTexts(model),
  };
}

/** @param {Entry["model"]} model */
function modelTexts(model) {
  if (model === "unknown") return { model: DASH, module: DASH, shaders: DASH };
  const version = model.version === "unknown" ? "" : ` ${model.version}`;
  return { model: shown(model.id) + version, module: shown(model.wasmSha256), shaders: model.wgsl.sha256.join(", ") || "none" };
}

const NOTHING = {
  system: DASH, mode: DASH, why: "", workers: DASH, gpu: DASH, work: DASH, done: "",
  prepared: DASH, compiled: DASH, trained: DASH, sent: DASH, speed: DASH, average: DASH,
  settings: DASH, size: DASH, assignment: DASH, attempt: DASH, steps: DASH, cores: DASH, backend: DASH,
  webgpu: DASH, adapter: DASH, budget: DASH, attempted: DASH, model: DASH, module: DASH, shaders: DASH,
};
