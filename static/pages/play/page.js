// The page on which a trained model is watched, played against or asked: which checkpoint answers, and the view that asks it.
import { byId, setBar, setText, show, showProblem } from "../dom.js";
import { CartpoleView } from "./cartpole.js";
import { ConnectFourView } from "./connect_four.js";
import { FormView } from "./form.js";
import { PlayedModel } from "./model.js";

/** @typedef {{ask: (input: object) => Promise<any>, problem: (error: unknown) => void, inference: any}} Asking */
/** A view is told whenever another checkpoint answers. A newer one waits until the view is idle.
 * @typedef {{show: (round: number) => void, idle: () => Promise<void>}} View */

const POLL_MS = 5000;
/** @type {Record<string, new (asking: Asking) => View>} */
const VIEWS = { cartpole: CartpoleView, "connect-four": ConnectFourView, "": FormView };

const root = byId("play");
const facts = JSON.parse(root.dataset["facts"] ?? "{}");
const model = new PlayedModel({ jobId: root.dataset["job"] ?? "", files: root.dataset["files"] ?? "", module: facts.module });
const roundInput = /** @type {HTMLInputElement} */ (byId("play-round"));
const follow = /** @type {HTMLInputElement} */ (byId("play-follow"));
/** @type {number | null} of the checkpoint that answers now */
let current = null;
let choosing = new AbortController();

/** @param {unknown} error */
const problem = (error) => showProblem("play-problem", error);

const View = VIEWS[root.dataset["view"] ?? ""] ?? FormView;
const view = new View({ ask: (input) => model.ask(input), problem, inference: facts.inference });

/** @param {import("./model.js").CheckpointFacts["metrics"]} metrics */
function renderMetrics(metrics) {
  const rows = metrics.flatMap(({ label, training, checked }) => {
    const value = checked ?? training;
    if (value === null) return [];
    const term = document.createElement("dt");
    term.textContent = label;
    const data = document.createElement("dd");
    data.textContent = `${Number(value.toPrecision(4))}${checked === null ? " in training" : ""}`;
    return [term, data];
  });
  byId("play-metrics").replaceChildren(...rows);
}

/** @param {number} newest */
function renderRound(newest) {
  roundInput.max = String(newest);
  if (document.activeElement !== roundInput) roundInput.value = String(current);
  const earlier = /** @type {HTMLButtonElement} */ (byId("play-earlier"));
  const later = /** @type {HTMLButtonElement} */ (byId("play-later"));
  earlier.disabled = current === null || current <= Number(roundInput.min);
  later.disabled = current === null || current >= Number(roundInput.max);
}

/** Fetch a checkpoint and let it answer; a later choice ends an earlier one. @param {number | "newest"} wanted */
async function choose(wanted) {
  choosing.abort();
  choosing = new AbortController();
  const { signal } = choosing;
  try {
    const found = await model.facts(wanted, signal);
    const changed = found.round !== current;
    if (changed) {
      setText("play-state", `Loading round ${found.round}…`);
      await model.load(found, { signal, onProgress: loading });
      current = found.round;
    }
    problem(null);
    setText("play-state", `Round ${found.round} is loaded.`);
    renderMetrics(found.metrics);
    renderRound(found.newest);
    if (changed) view.show(found.round);
  } catch (error) {
    if (signal.aborted) return;
    setText("play-state", "");
    problem(error);
  }
  show("play-bar", false);
}

/** @param {number} fraction */
function loading(fraction) {
  setBar("play-bar", fraction);
  show("play-bar", true);
}

let looking = false;
let again = false;

/** Newer checkpoints come one at a time, and not in the middle of what the view shows. */
async function lookForNewest() {
  again = looking;
  if (looking || !follow.checked) return;
  looking = true;
  await view.idle();
  if (follow.checked) await choose("newest");
  looking = false;
  if (again) void lookForNewest();
}

/** @param {number} round */
function chooseRound(round) {
  const least = Number(roundInput.min);
  const most = Number(roundInput.max);
  if (!Number.isInteger(round) || round < least || round > most) {
    return problem(new Error(`Round must be a whole number from ${least} to ${most}.`));
  }
  follow.checked = false;
  return void choose(round);
}

roundInput.addEventListener("change", () => chooseRound(Number(roundInput.value)));
byId("play-earlier").addEventListener("click", () => chooseRound((current ?? 0) - 1));
byId("play-later").addEventListener("click", () => chooseRound((current ?? 0) + 1));
follow.addEventListener("change", () => void lookForNewest());
// Hints come only to a browser that is a peer of the site; others look by themselves while the job can change.
document.addEventListener("weei:checkpoints", () => void lookForNewest());
if (root.dataset["live"] !== undefined) setInterval(() => void lookForNewest(), POLL_MS);
void choose(follow.checked ? "newest" : Number(roundInput.value));
