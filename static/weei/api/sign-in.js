/** Signing in on another site's page: a popup of ours asks the person and posts a token to this page's origin, and to no other. */

const CLOSED_MS = 500;
const FEATURES = "popup,width=520,height=720";

/** @returns {string} 128 random bits; `crypto.randomUUID` is missing on plain http */
function oneTimeState() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The popup opens at once: browsers allow it only while a click is handled.
 * @param {string} base our own origin @param {Window & typeof globalThis} page @returns {Promise<string>} the token
 */
export function askForToken(base, page) {
  const state = oneTimeState();
  const popup = page.open(`${base}/authorize/?${new URLSearchParams({ origin: page.origin, state })}`, "weei-sign-in", FEATURES);
  if (!popup) return Promise.reject(new Error("The browser did not open the sign-in window. Call signIn() while a click is handled, or allow popups."));
  return new Promise((resolve, reject) => {
    let looksClosed = 0;
    const watch = setInterval(() => {
      // Its last message may still be on the way when it is seen closed.
      looksClosed = popup.closed ? looksClosed + 1 : 0;
      if (looksClosed > 1) settle(reject, new Error("The sign-in window was closed, or this page's Cross-Origin-Opener-Policy cut it off."));
    }, CLOSED_MS);
    /** @param {MessageEvent} event */
    const answered = ({ origin, source, data }) => {
      if (origin !== base || source !== popup || data?.state !== state) return;
      if (data.type === "weei:signed-in" && typeof data.token === "string") settle(resolve, data.token);
      else settle(reject, new Error("This site was not allowed to act for you."));
    };
    /** @param {(value: any) => void} done @param {unknown} value */
    const settle = (done, value) => {
      clearInterval(watch);
      page.removeEventListener("message", answered);
      done(value);
    };
    page.addEventListener("message", answered);
  });
}
