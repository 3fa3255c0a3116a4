/** Who takes part, and whom the coordinator may invite. */
import { h, labelled, setRows } from "./dom.js";

/** @type {Record<import("../weei.js").ParticipantState["state"], string>} */
const STATES = {
  invited: "invited",
  approved: "accepted, loading the model",
  declined: "declined",
  unknown: "not heard from yet",
  disconnected: "not connected",
  modelLoaded: "ready",
  assigned: "has work",
  training: "training",
  updateReady: "sending its update",
  resultReceived: "done with this round",
  stopped: "stopped",
  modelLoadFailed: "cannot load the model",
};

/** @typedef {{peerId: string, mine: boolean, mayDecide: boolean, name: string, state: string, paused: boolean, percent: number | null}} Person */

/** @param {import("../weei.js").TrainingState} state @returns {Person[]} */
function people({ job, myPeerId, progress }) {
  return Object.entries(job?.participants ?? {}).map(([peerId, { label, state, paused = false }]) => {
    const { processedExamples = 0, totalExamples = 0 } = progress[peerId] ?? {};
    const percent = totalExamples ? Math.floor((100 * processedExamples) / totalExamples) : null;
    const mine = peerId === myPeerId;
    return { peerId, mine, mayDecide: job?.role === "coordinator" && !mine, name: `${label} (${peerId.slice(0, 8)})`, state: STATES[state], paused, percent };
  });
}

/** @param {import("./window.js").Parts} parts @returns {import("./window.js").Section} */
export function peopleSection({ training, buttons }) {
  const list = h("ul");
  const online = h("ul");
  const link = h("input", { readOnly: true, onfocus: () => link.select() });
  const shownOnce = labelled("Invitation link", link, "Shown this once: copy it now. It works once, for seven days.");
  shownOnce.hidden = true;
  const make = buttons.button("New invitation link", async () => {
    link.value = (await training.createInvitation()).url;
    shownOnce.hidden = false;
    link.focus();
  });
  const inviting = h("div", {}, shownOnce, make, online);
  const element = h("section", { "aria-label": "Participants" }, h("h3", {}, "Participants"), list, inviting);
  /** @param {Person} person */
  const row = ({ peerId, mine, mayDecide, name, state, paused, percent }) => {
    const words = `${name}${mine ? ", this browser" : ""}: ${paused ? "paused" : state}${percent === null ? "" : `, ${percent} %`}`;
    const decide = [
      buttons.button(paused ? "Resume" : "Pause", () => training.pauseParticipant(peerId, !paused), { label: `${paused ? "Resume" : "Pause"} ${name}` }),
      buttons.button("Remove", () => training.removeParticipant(peerId), { label: `Remove ${name}` }),
    ];
    return h("li", { className: "row" }, h("span", { className: "grow" }, words), ...(mayDecide ? decide : []));
  };
  /** @param {string} peerId */
  const guest = (peerId) =>
    h(
      "li",
      { className: "row" },
      h("span", { className: "grow" }, `Online: ${peerId.slice(0, 8)}`),
      buttons.button("Invite", () => training.invite(peerId), { label: `Invite ${peerId.slice(0, 8)}` }),
    );
  return {
    element,
    render(state) {
      const { job, peers } = state;
      element.hidden = !job;
      if (!job) return;
      inviting.hidden = job.role !== "coordinator" || job.status === "completed";
      setRows(list, people(state), row);
      setRows(online, peers.filter((peerId) => !job.participants[peerId]), guest);
    },
  };
}
