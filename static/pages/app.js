// On every page: live panels, local times, copy buttons, toasts, questions, shortcuts, the theme, and the banner for a
// server that does not answer.
import { startDialogs } from "./dialogs.js";
import { startPanels } from "./panels.js";
import { startProgress } from "./progress.js";
import { startShortcuts } from "./shortcuts.js";
import { startTheme } from "./theme.js";
import { startToasts } from "./toasts.js";

/** @param {ParentNode} root */
function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[data-local]")) {
    const date = new Date(element.getAttribute("datetime") ?? "");
    if (Number.isNaN(date.getTime())) continue;
    element.textContent = date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    element.removeAttribute("data-local");
  }
}

/** Copies the text of the element that `data-copy` names; without a clipboard (plain http) selects it instead.
 * @param {HTMLElement} button */
async function copy(button) {
  const source = document.getElementById(button.dataset["copy"] ?? "");
  if (!source) return;
  const text = source instanceof HTMLInputElement ? source.value : (source.textContent ?? "");
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    if (source instanceof HTMLInputElement) source.select();
    button.textContent = "Press Ctrl+C";
  }
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (target instanceof HTMLElement) void copy(target);
});
document.addEventListener("htmx:afterSwap", () => localizeTimes(document));

localizeTimes(document);
startPanels(document);
startDialogs();
startToasts();
startProgress();
startShortcuts();
startTheme();
