// Shows only the options of the chosen merge method; a hidden option is not sent. Works for every form that HTMX brings.

/** @param {HTMLFormElement} form */
export function syncMethods(form) {
  const method = /** @type {HTMLSelectElement | null} */ (form.elements.namedItem("method"));
  for (const field of form.querySelectorAll("[data-methods]")) {
    const fits = (field.getAttribute("data-methods") ?? "").split(" ").includes(method?.value ?? "");
    /** @type {HTMLElement} */ (field).hidden = !fits;
    for (const input of field.querySelectorAll("input")) input.disabled = !fits;
  }
}

function syncAll() {
  for (const form of document.querySelectorAll("form[data-settings-form]")) syncMethods(/** @type {HTMLFormElement} */ (form));
}

document.addEventListener("change", (event) => {
  const form = event.target instanceof HTMLElement ? event.target.closest("form[data-settings-form]") : null;
  if (form) syncMethods(/** @type {HTMLFormElement} */ (form));
});
document.addEventListener("htmx:afterSettle", syncAll);
syncAll();
