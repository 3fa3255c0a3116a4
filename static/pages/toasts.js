// Toasts: one sentence about what happened, said to screen readers too. It goes by itself, unless something can be undone.

const SHOWN_MS = 8000;
const MOST = 4;
/** After the page is there, or screen readers do not take it for news. */
const NEWS_MS = 150;
const KEY = "weei-toasts";
const csrf = () => document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";

/** @typedef {{text: string, undo?: string | undefined}} Said `undo` is an address that takes it back */

/** @param {string} text @param {string} className */
function button(text, className) {
  return Object.assign(document.createElement("button"), { type: "button", textContent: text, className });
}

/** @param {string} address */
function undoForm(address) {
  const form = Object.assign(document.createElement("form"), { method: "post", action: address });
  const token = Object.assign(document.createElement("input"), { type: "hidden", name: "csrfmiddlewaretoken", value: csrf() });
  form.append(token, Object.assign(button("Undo", "undo"), { type: "submit" }));
  return form;
}

/** Ends by itself, but not while it is pointed at or has the focus. @param {HTMLElement} toast */
function endLater(toast) {
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  const hold = () => clearTimeout(timer);
  const again = () => {
    hold();
    timer = setTimeout(() => toast.remove(), SHOWN_MS);
  };
  for (const name of ["pointerenter", "focusin"]) toast.addEventListener(name, hold);
  for (const name of ["pointerleave", "focusout"]) toast.addEventListener(name, again);
  again();
}

/** @param {HTMLElement} toast with its text */
function place(toast) {
  const region = document.getElementById("toasts");
  if (!region) return;
  const dismiss = button("×", "dismiss");
  dismiss.setAttribute("aria-label", "Dismiss");
  dismiss.addEventListener("click", () => toast.remove());
  toast.append(dismiss);
  region.append(toast);
  while (region.children.length > MOST) region.firstElementChild?.remove();
  if (!toast.querySelector("form")) endLater(toast);
}

/** @param {string} text @param {{undo?: string | undefined}} [options] */
export function showToast(text, { undo } = {}) {
  const toast = Object.assign(document.createElement("div"), { className: "toast" });
  toast.append(Object.assign(document.createElement("p"), { textContent: text }));
  if (undo) toast.append(undoForm(undo));
  place(toast);
}

/** Said on the page that comes next. @param {string} text */
export function toastNext(text) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify([...kept(), { text }]));
  } catch {
    // Without a store it is not said; nothing else hangs on it.
  }
}

/** @returns {Said[]} */
function kept() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.text === "string") : [];
  } catch {
    return [];
  }
}

export function startToasts() {
  document.addEventListener("weei:toast", (event) => {
    const { text, undo } = /** @type {CustomEvent} */ (event).detail ?? {};
    if (typeof text === "string") showToast(text, { undo: typeof undo === "string" ? undo : undefined });
  });
  const rendered = [...document.querySelectorAll("#toasts > .toast")];
  const later = kept();
  if (later.length) sessionStorage.removeItem(KEY);
  if (!rendered.length && !later.length) return;
  for (const toast of rendered) toast.remove();
  setTimeout(() => {
    for (const toast of rendered) place(/** @type {HTMLElement} */ (toast));
    for (const { text } of later) showToast(text);
  }, NEWS_MS);
}
