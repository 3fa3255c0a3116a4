// Light, dark, or as the system says. A cookie remembers it, so that the server's page comes in the right colours.

const YEAR_S = 31_536_000;
const MEDIA = /** @type {Record<string, string>} */ ({ light: "not all", dark: "all", auto: "(prefers-color-scheme: dark)" });

/** @param {string} theme "light", "dark" or "auto" */
export function setTheme(theme) {
  const link = document.getElementById("dark");
  if (!(link instanceof HTMLLinkElement)) return;
  link.media = MEDIA[theme] ?? MEDIA["auto"] ?? "";
  document.cookie = `weei_theme=${theme}; path=/; max-age=${theme === "auto" ? 0 : YEAR_S}; SameSite=Lax`;
  press(theme);
  // Charts are drawn in the page's colours.
  document.dispatchEvent(new CustomEvent("weei:theme"));
}

/** @param {string} theme */
function press(theme) {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.getAttribute("data-theme-choice") === theme));
  }
}

export function startTheme() {
  const choice = document.getElementById("theme");
  if (!choice) return;
  choice.hidden = false;
  choice.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-theme-choice]") : null;
    if (button) setTheme(button.getAttribute("data-theme-choice") ?? "auto");
  });
}
