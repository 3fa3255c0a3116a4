// The popup in which a person says whether another site may act for them.
import { byId } from "./dom.js";

/** A page that opens this window under a double click must not have it answered by the second one. */
const UNANSWERED_MS = 700;

const allow = /** @type {HTMLButtonElement} */ (byId("authorize-allow"));
/** @type {ReturnType<typeof setTimeout> | undefined} */
let waiting;

function wait() {
  clearTimeout(waiting);
  allow.disabled = true;
  if (document.visibilityState === "visible") waiting = setTimeout(() => (allow.disabled = false), UNANSWERED_MS);
}

document.addEventListener("visibilitychange", wait);
wait();
