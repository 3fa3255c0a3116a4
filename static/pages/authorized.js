// Hands the answer to the page that opened this window, and to no other origin.
import { byId, setText } from "./dom.js";

const handover = byId("handover");
const { origin = "", state = "", token } = handover.dataset;
const opener = /** @type {Window | null} */ (window.opener);

if (opener) {
  opener.postMessage(token ? { type: "weei:signed-in", state, token } : { type: "weei:refused", state }, origin);
  delete handover.dataset["token"];
  window.close();
}
if (token) {
  setText("handover-told", opener ? "Its page was told. You can close this window." : "Its page cannot be reached from this window. Begin again from that page.");
}
