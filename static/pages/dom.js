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
  showText(problemId, null);
  try {
    await command();
  } catch (error) {
    showText(problemId, error instanceof Error ? error.message : String(error));
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
