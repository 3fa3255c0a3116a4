// Shows only the options of the chosen merge method (a hidden option is not sent), and how many rounds are left. Works for
// every form that HTMX brings.

/** @param {HTMLFormElement} form */
function syncMethods(form) {
  const method = /** @type {HTMLSelectElement | null} */ (form.elements.namedItem("method"));
  for (const field of form.querySelectorAll("[data-methods]")) {
    const fits = (field.getAttribute("data-methods") ?? "").split(" ").includes(method?.value ?? "");
    /** @type {HTMLElement} */ (field).hidden = !fits;
    for (const input of field.querySelectorAll("input")) input.disabled = !fits;
  }
}

/** "Rounds" is the number of the last one, so what it comes to is said. @param {HTMLFormElement} form */
function syncRounds(form) {
  const input = /** @type {HTMLInputElement | null} */ (form.querySelector("input[data-from-round]"));
  const output = form.querySelector("[data-rounds-left]");
  if (!input || !output) return;
  const from = Number(input.dataset["fromRound"]);
  const left = Number(input.value) - from;
  output.textContent = left > 0 ? `From round ${from} on, ${input.value} trains ${left} more.` : `It must be above ${from}.`;
}

/** @param {HTMLFormElement} form */
export function syncForm(form) {
  syncMethods(form);
  syncRounds(form);
}

function syncAll() {
  for (const form of document.querySelectorAll("form[data-settings-form]")) syncForm(/** @type {HTMLFormElement} */ (form));
}

for (const name of ["change", "input"]) {
  document.addEventListener(name, (event) => {
    const form = event.target instanceof HTMLElement ? event.target.closest("form[data-settings-form]") : null;
    if (form) syncForm(/** @type {HTMLFormElement} */ (form));
  });
}
document.addEventListener("htmx:afterSettle", syncAll);
syncAll();
