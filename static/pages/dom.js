// Small helpers of the page scripts. Everything from outside is set as text.

/** @template {HTMLElement} [T=HTMLElement] @param {string} id @returns {T} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return /** @type {T} */ (element);
}

/** Sets text only when it changed, so that screen readers hear a status once. @param {string} id @param {string} text */
export function setText(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

/** @param {string} id @param {boolean} visible */
export function show(id, visible) {
  byId(id).hidden = !visible;
}

/** @param {string} id @param {string | null | undefined} text null hides the element */
export function showText(id, text) {
  if (text) setText(id, text);
  show(id, Boolean(text));
}

/** To the entry that explains an error, or to all of them. @param {unknown} code */
export function helpLink(code) {
  const href = typeof code === "string" && code ? `/help/errors#${code}` : "/help/errors";
  return Object.assign(document.createElement("a"), { href, textContent: "What this means, and what to do" });
}

/** A refusal, with the way to what it means; null hides the element. @param {string} id @param {unknown} problem an error or a sentence */
export function showProblem(id, problem) {
  const element = byId(id);
  const text = problem instanceof Error ? problem.message : problem ? String(problem) : "";
  const link = helpLink(/** @type {{code?: unknown} | null} */ (problem)?.code);
  // The same refusal is not read out again.
  const before = element.querySelector("a");
  if (text && (before?.href !== link.href || element.firstChild?.textContent !== `${text} `)) element.replaceChildren(`${text} `, link);
  element.hidden = !text;
}

/** A bar without a known end is indeterminate. @param {string} id @param {number | null} fraction */
export function setBar(id, fraction) {
  const bar = /** @type {HTMLProgressElement} */ (byId(id));
  if (fraction === null || !Number.isFinite(fraction)) bar.removeAttribute("value");
  else bar.value = Math.min(1, Math.max(0, fraction));
}

/** Runs a command of a button: the button is off meanwhile, a refusal is shown.
 * @param {HTMLButtonElement} button @param {string} problemId @param {() => Promise<unknown>} command */
export async function run(button, problemId, command) {
  button.disabled = true;
  showProblem(problemId, null);
  try {
    await command();
  } catch (error) {
    showProblem(problemId, error);
  } finally {
    button.disabled = false;
  }
}

/** The training API, or an Error that says why there is none. @returns {Promise<any>} */
export async function trainingApi() {
  // The page's scripts may run before weei.js has set the promise.
  const ready = /** @type {any} */ (window).weeiReady;
  const weei = ready ? await ready : await (await import("../weei/weei.js")).loadWeei();
  const training = weei.widgetsApi.get("distributed-training");
  if (!training) throw new Error("Distributed training is not enabled here.");
  return training;
}
