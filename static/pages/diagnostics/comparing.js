// Whether participants work with the same settings and the same model, and who differs in what; the same as
// jobs/selectors/comparing.py, and tests/golden/card.json holds both to one answer.

/** By name, as texts. @typedef {Map<string, string>} Facts */
/** @typedef {{sentence: string, tone: string, differing: Map<string, string>}} Comparison */

/** @type {Array<[name: string, member: "batchSize" | "localEpochs" | "learningRate"]>} */
const SETTINGS = [["batch size", "batchSize"], ["local epochs", "localEpochs"], ["learning rate", "learningRate"]];
const SHORT_HASH = 12;

/** What is compared. What a peer does not tell is left out: it is no difference.
 * @param {Pick<import("../../weei/weei.js").PeerExecutionDiagnostics, "assignment" | "model">} of @returns {Facts} */
export function factsOf({ assignment, model }) {
  /** @type {Facts} */
  const found = new Map();
  if (assignment) {
    for (const [name, member] of SETTINGS) if (assignment[member] !== "unknown") found.set(name, String(assignment[member]));
  }
  if (model !== "unknown") {
    found.set("model", `${model.id} ${model.version}`);
    found.set("module", model.wasmSha256.slice(0, SHORT_HASH));
    found.set("shaders", model.wgsl.sha256.map((sha256) => sha256.slice(0, SHORT_HASH)).join(", ") || "none");
  }
  return found;
}

/** How often each value occurs, by name of the fact. @param {Iterable<Facts>} everyone */
function counted(everyone) {
  /** @type {Map<string, Map<string, number>>} */
  const counts = new Map();
  for (const facts of everyone) {
    for (const [name, value] of facts) {
      const counter = counts.get(name) ?? new Map();
      counts.set(name, counter.set(value, (counter.get(value) ?? 0) + 1));
    }
  }
  return counts;
}

/** The most common one; of two that are equally common, the one that came first. @param {Map<string, number>} counter */
const mostCommon = (counter) => [...counter].reduce((best, next) => (next[1] > best[1] ? next : best))[0];

/** @param {Map<string, Facts>} everyone by peer, in the order they are shown @returns {Comparison} */
export function compare(everyone) {
  const counts = counted(everyone.values());
  const usual = new Map([...counts].map(([name, counter]) => [name, mostCommon(counter)]));
  /** @type {Map<string, string>} */
  const differing = new Map();
  for (const [peer, facts] of everyone) {
    const texts = [...facts].filter(([name, value]) => value !== usual.get(name)).map(([name, value]) => `${name} ${value} instead of ${usual.get(name)}`);
    if (texts.length) differing.set(peer, texts.join(", "));
  }
  const reporting = [...everyone.values()].filter((facts) => facts.size > 0).length;
  return { ...verdict(reporting, differing, counts), differing: reporting < 2 ? new Map() : differing };
}

/** @param {number} reporting @param {Map<string, string>} differing @param {Map<string, Map<string, number>>} counts */
function verdict(reporting, differing, counts) {
  if (reporting < 2) {
    const told = reporting ? "One participant tells its settings and model" : "Nobody has told settings or model yet";
    return { sentence: `${told}: there is nothing to compare.`, tone: "" };
  }
  if (differing.size) {
    const verb = differing.size === 1 ? "differs" : "differ";
    return { sentence: `${differing.size} of ${reporting} participants ${verb} from the others.`, tone: "warn" };
  }
  const compared = (/** @type {string} */ name) => [...(counts.get(name)?.values() ?? [])].reduce((sum, times) => sum + times, 0) > 1;
  const what = [...(SETTINGS.some(([name]) => compared(name)) ? ["settings"] : []), ...(compared("module") ? ["model"] : [])];
  if (!what.length) return { sentence: `The ${reporting} participants that tell have told nothing yet that could be compared.`, tone: "" };
  return { sentence: `All ${reporting} participants that tell use the same ${what.join(" and the same ")}.`, tone: "good" };
}
