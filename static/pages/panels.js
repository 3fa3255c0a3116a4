// Panels: fragments that htmx fetches again at every hint and poll. An answer that was read before the one on the page
// is dropped, one that says the same is not swapped (focus, selection and open details stay), and a page that is not
// a fragment never lands in a panel.

/** What the last answer of each panel said, without its marker. @type {Map<string, string>} */
const lastText = new Map();
/** @type {Map<string, boolean>} */
const openDetails = new Map();
const MARKER = /data-marker="(\d+)"/;
/** Differs in every answer and says nothing. */
const NOISE = /data-marker="\d+"|name="csrfmiddlewaretoken" value="[^"]*"/g;

/** @param {string} text */
const markerOf = (text) => Number(MARKER.exec(text)?.[1] ?? NaN);

/** The lasting part of a fragment. @param {string} text */
export const lasting = (text) => text.replace(NOISE, "");

/** Decides what becomes of an answer to a panel.
 * @param {{marker: number, text: string | undefined}} current what is shown
 * @param {string} incoming
 * @returns {"swap" | "same" | "old" | "foreign"} */
export function judge(current, incoming) {
  const marker = markerOf(incoming);
  if (Number.isNaN(marker)) return "foreign";
  if (marker < current.marker) return "old";
  return lasting(incoming) === current.text ? "same" : "swap";
}

/** @param {Element} panel */
function shownMarker(panel) {
  return Number(panel.querySelector("[data-marker]")?.getAttribute("data-marker") ?? 0);
}

/** Whether the panel's own script took the fragment. @param {HTMLElement} panel @param {string} text */
const patched = (panel, text) => !panel.dispatchEvent(new CustomEvent("weei:fragment", { detail: text, cancelable: true }));

/** @param {CustomEvent} event */
function beforeSwap(event) {
  const { xhr, target } = event.detail;
  if (xhr.status >= 400) {
    // Only an answer that names its own place may be shown; an error page is not a fragment.
    event.detail.shouldSwap = Boolean(xhr.getResponseHeader("HX-Retarget"));
    return;
  }
  if (!(target instanceof HTMLElement) || target.dataset["panel"] === undefined) return;
  // What a question on the page is about stays until it is answered; the next poll brings the rest.
  if (event.detail.requestConfig?.verb === "get" && document.querySelector("dialog[open]")) {
    event.detail.shouldSwap = false;
    return;
  }
  const verdict = judge({ marker: shownMarker(target), text: lastText.get(target.id) }, xhr.responseText);
  if (verdict === "same") {
    target.querySelector("[data-marker]")?.setAttribute("data-marker", String(markerOf(xhr.responseText)));
  }
  if (verdict !== "swap") {
    event.detail.shouldSwap = false;
    return;
  }
  lastText.set(target.id, lasting(xhr.responseText));
  if (target.dataset["patched"] !== undefined) {
    // A panel that writes changes into what stands there, instead of taking the fragment as it is.
    target.querySelector("[data-marker]")?.setAttribute("data-marker", String(markerOf(xhr.responseText)));
    event.detail.shouldSwap = !patched(target, xhr.responseText);
    return;
  }
  for (const details of target.querySelectorAll("details[id]")) {
    openDetails.set(details.id, /** @type {HTMLDetailsElement} */ (details).open);
  }
}

/** @param {CustomEvent} event */
function afterSwap(event) {
  const target = event.detail.target;
  if (!(target instanceof HTMLElement)) return;
  for (const details of target.querySelectorAll("details[id]")) {
    const open = openDetails.get(details.id);
    if (open !== undefined) /** @type {HTMLDetailsElement} */ (details).open = open;
  }
  announce(target);
}

/** Says a changed status line once; the panel itself is not a live region, or every poll would be read out.
 * @param {ParentNode} root */
function announce(root) {
  const line = root.querySelector("[data-announce]")?.textContent?.trim();
  const announcer = document.getElementById("announcer");
  if (line && announcer && announcer.textContent !== line) announcer.textContent = line;
}

/** @param {boolean} lost */
function showConnection(lost) {
  const banner = document.getElementById("connection");
  if (banner) banner.hidden = !lost;
}

/** @param {CustomEvent} event */
function afterRequest(event) {
  const { xhr, successful, requestConfig } = event.detail;
  if (!xhr || xhr.status === 0) return;
  showConnection(xhr.status >= 502 && xhr.status <= 504);
  const messages = document.getElementById("messages");
  if (successful && requestConfig?.verb !== "get" && messages) messages.replaceChildren();
}

/** @param {Document} root */
export function startPanels(root) {
  /** @type {Array<[string, (event: any) => void]>} */
  const handlers = [
    ["htmx:beforeSwap", beforeSwap],
    ["htmx:afterSwap", afterSwap],
    ["htmx:afterRequest", afterRequest],
    ["htmx:sendError", () => showConnection(true)],
    ["htmx:timeout", () => showConnection(true)],
  ];
  for (const [name, handler] of handlers) root.addEventListener(name, handler);
  // Every panel that listens to a hint of its status looks again.
  root.getElementById("connection-retry")?.addEventListener("click", () => root.dispatchEvent(new CustomEvent("weei:status")));
}
