// Questions before something is lost: a dialog that names the thing. For htmx's `hx-confirm`, for plain forms with
// `data-confirm`, and for scripts.

/** @typedef {{verb?: string | undefined}} AskOptions */

/** @param {string} tag @param {Record<string, unknown>} properties */
const element = (tag, properties) => Object.assign(document.createElement(tag), properties);

/** The question, then what else is to be said. @param {string} text @returns {[string, string]} */
export function questionOf(text) {
  const end = text.indexOf("?") + 1;
  return end ? [text.slice(0, end), text.slice(end).trim()] : [text, ""];
}

/** @param {string} text a question, and what it means @param {AskOptions} [options] @returns {Promise<boolean>} */
export function ask(text, { verb = "Yes" } = {}) {
  const [question, rest] = questionOf(text);
  const dialog = document.createElement("dialog");
  const title = element("h2", { textContent: question, id: "ask-title" });
  dialog.setAttribute("aria-labelledby", "ask-title");
  const form = element("form", { method: "dialog" });
  const row = element("div", { className: "row" });
  // The safe answer has the focus.
  const keep = element("button", { value: "", textContent: "Cancel", type: "submit", autofocus: true });
  row.append(keep, element("button", { value: "yes", textContent: verb, type: "submit", className: "danger filled" }));
  form.append(title, ...(rest ? [element("p", { textContent: rest })] : []), row);
  dialog.append(form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    dialog.showModal();
  });
}

/** What a button says, without what only screen readers hear. @param {Element | null | undefined} button */
function wordOf(button) {
  return button?.firstChild?.textContent?.trim() || "Yes";
}

/** @param {any} event of htmx, before each request */
function beforeHtmx(event) {
  const { question, elt, issueRequest } = event.detail;
  if (!question) return;
  event.preventDefault();
  const button = elt instanceof HTMLFormElement ? elt.querySelector('[type="submit"]') : elt;
  void ask(question, { verb: wordOf(button) }).then((yes) => yes && issueRequest(true));
}

/** @param {SubmitEvent} event */
function beforeSubmit(event) {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.dataset["confirm"]) return;
  event.preventDefault();
  const submitter = event.submitter;
  void ask(form.dataset["confirm"], { verb: wordOf(submitter) }).then((yes) => {
    if (!yes) return;
    delete form.dataset["confirm"];
    form.requestSubmit(submitter);
  });
}

export function startDialogs() {
  document.addEventListener("htmx:confirm", beforeHtmx);
  document.addEventListener("submit", beforeSubmit);
}
