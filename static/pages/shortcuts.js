// Keyboard shortcuts, with the dialog that lists them. They rest in fields, in dialogs and beside Ctrl, Alt and Meta, and
// can be switched off (WCAG 2.1.4).

const KEY = "weei-shortcuts";
const SEQUENCE_MS = 1200;

/** Keys → what they do, in words. A key sequence is written with a space.
 * @type {Array<[keys: string, words: string, act: () => void]>} */
const SHORTCUTS = [
  ["?", "Show or close this list", () => toggleHelp()],
  ["g j", "Go to the jobs", () => goTo('.top nav a[href="/jobs/"]')],
  ["g m", "Go to the models of your own data", () => goTo('.top nav a[href="/packages/"]')],
  ["g t", "Go to what this browser trains", () => goTo('.top nav a[href="/train/"]')],
  ["g h", "Go to the help", () => goTo('.top nav a[href="/help/"]')],
  ["n", "New job", () => goTo('.top nav a[href="/jobs/"]', "new/")],
  ["/", "Search the list", () => focusOn("[data-key-search]")],
  ["j", "Next in the list", () => move(1)],
  ["k", "Previous in the list", () => move(-1)],
  ["Enter", "Open what is chosen in the list", () => {}],
  ["Space", "On a job's page: start, pause or resume", () => press("#do-start, #do-pause, #do-resume")],
  ["i", "On a job's page: invite participants", () => focusOn("#id_uses")],
  ["Esc", "Close a dialog, leave a field", () => {}],
];

/** Only where the page has the link: not before somebody is signed in. @param {string} selector @param {string} [below] */
function goTo(selector, below = "") {
  const link = document.querySelector(selector);
  if (link instanceof HTMLAnchorElement) location.assign(link.href + below);
}

/** @param {string} selector */
function focusOn(selector) {
  const field = document.querySelector(selector);
  if (field instanceof HTMLElement) field.focus();
}

/** @param {string} selector */
function press(selector) {
  const button = document.querySelector(selector);
  if (button instanceof HTMLElement) button.click();
}

/** @param {number} by */
function move(by) {
  const links = [...document.querySelectorAll(".jobs h2 a, .jobs h3 a, #panel-checkpoints tbody th a")];
  if (!links.length) return;
  const at = links.indexOf(/** @type {Element} */ (document.activeElement));
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  if (next instanceof HTMLElement) {
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

/** Whether they are on; they are until somebody switches them off. */
export function enabled() {
  try {
    return localStorage.getItem(KEY) !== "off";
  } catch {
    return true;
  }
}

/** @param {boolean} on */
function setEnabled(on) {
  try {
    localStorage.setItem(KEY, on ? "on" : "off");
  } catch {
    // Without a store it holds until the page is left.
  }
}

function helpDialog() {
  const dialog = document.createElement("dialog");
  dialog.id = "shortcuts";
  dialog.setAttribute("aria-labelledby", "shortcuts-title");
  const form = document.createElement("form");
  form.method = "dialog";
  const title = Object.assign(document.createElement("h2"), { id: "shortcuts-title", textContent: "Keyboard shortcuts" });
  const list = Object.assign(document.createElement("dl"), { className: "keys" });
  for (const [keys, words] of SHORTCUTS) {
    const term = document.createElement("dt");
    keys.split(" ").forEach((key, index) => term.append(...(index ? [" then "] : []), Object.assign(document.createElement("kbd"), { textContent: key })));
    list.append(term, Object.assign(document.createElement("dd"), { textContent: words }));
  }
  const check = Object.assign(document.createElement("div"), { className: "check" });
  const box = Object.assign(document.createElement("input"), { type: "checkbox", id: "shortcuts-on", checked: enabled() });
  box.addEventListener("change", () => setEnabled(box.checked));
  check.append(box, Object.assign(document.createElement("label"), { htmlFor: "shortcuts-on", textContent: "Shortcuts are on in this browser" }));
  const row = Object.assign(document.createElement("div"), { className: "row" });
  row.append(Object.assign(document.createElement("button"), { type: "submit", textContent: "Close", autofocus: true }));
  form.append(title, list, check, row);
  dialog.append(form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  return dialog;
}

export function toggleHelp() {
  const open = document.getElementById("shortcuts");
  if (open instanceof HTMLDialogElement) open.close();
  else helpDialog().showModal();
}

/** @param {EventTarget | null} target */
function takesKeys(target) {
  return target instanceof HTMLElement && (target.isContentEditable || Boolean(target.closest("input, select, textarea, [role=application], [data-keys]")));
}

/** What a key press asks for. @param {string} before the key before it, if it came just now @param {string} key
 * @returns {{act?: () => void, waits: boolean}} */
export function meaning(before, key) {
  const name = key === " " ? "Space" : key;
  const found = SHORTCUTS.find(([keys]) => keys === (before ? `${before} ${name}` : name)) ?? SHORTCUTS.find(([keys]) => keys === name);
  return { ...(found ? { act: found[2] } : {}), waits: SHORTCUTS.some(([keys]) => keys.startsWith(`${name} `)) };
}

let before = "";
let at = 0;

/** @param {KeyboardEvent} event */
function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
  if (key === "Escape" && takesKeys(target)) return /** @type {HTMLElement} */ (target).blur();
  const dialog = document.querySelector("dialog[open]");
  if (takesKeys(target) || (dialog && !(dialog.id === "shortcuts" && key === "?"))) return;
  if (!enabled() && !dialog) return;
  // Space and Enter belong to the button or link that has the focus.
  if ((key === " " || key === "Enter") && target !== document.body && target !== document.getElementById("main")) return;
  const { act, waits } = meaning(Date.now() - at < SEQUENCE_MS ? before : "", key);
  [before, at] = [waits ? key : "", Date.now()];
  if (!act || key === "Enter" || (key === " " && !document.querySelector("#do-start, #do-pause, #do-resume"))) return;
  event.preventDefault();
  act();
}

export function startShortcuts() {
  document.addEventListener("keydown", onKey);
  const opener = document.getElementById("shortcuts-open");
  if (!opener) return;
  opener.hidden = false;
  opener.addEventListener("click", toggleHelp);
}
