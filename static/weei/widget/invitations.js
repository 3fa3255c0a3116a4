/** Invitations to decide. Nothing of a job is fetched before its invitation is accepted. */
import { bytesText, countText, shown, unitsText } from "../../pages/format.js";
import { fact, h, setRows } from "./dom.js";

/** @param {import("../weei.js").Invitation} invitation */
function facts({ coordinator, modelInfo, module, data, weightBytes, settings }) {
  const unit = modelInfo.workSource?.unit;
  const counted = unit ? `Rounds of ${unitsText(unit)}` : "Passes over the data";
  return h(
    "dl",
    {},
    fact("From", coordinator),
    fact("Model", `${modelInfo.name} ${modelInfo.version}`),
    fact("Module", `${module.fileName}, ${bytesText(module.bytes)}`),
    fact("SHA-256", `${module.sha256.slice(0, 16)}…`, module.sha256),
    fact("Data", data.chunks ? `${countText(data.chunks)} chunks, ${bytesText(data.bytes)} in all` : "none: the model makes its own"),
    fact("Weights each round", bytesText(weightBytes)),
    fact(counted, shown(settings.epochs)),
  );
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function invitationsSection({ training, buttons }) {
  const list = h("ul");
  const element = h("section", { "aria-label": "Invitations" }, h("h3", {}, "Invitations"), list);
  /** @param {[string, import("../weei.js").JobInvitationState]} entry */
  const row = ([jobId, { invitation }]) => {
    if (!invitation) return h("li", { className: "muted" }, "Reading an invitation…");
    const name = invitation.jobName;
    return h(
      "li",
      {},
      h("strong", {}, name),
      facts(invitation),
      h("p", { className: "muted" }, "Only use models that you trust. Nothing is downloaded before you accept."),
      h(
        "div",
        { className: "row" },
        buttons.button("Accept", () => training.decideInvitation(jobId, true), { label: `Accept the invitation to ${name}`, className: "main" }),
        buttons.button("Decline", () => training.decideInvitation(jobId, false), { label: `Decline the invitation to ${name}` }),
      ),
    );
  };
  return {
    element,
    render({ invitations }) {
      element.hidden = invitations.length === 0;
      setRows(list, invitations, row);
    },
  };
}
