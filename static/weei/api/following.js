/** Which job this page shows: the one it was told to watch, else the one this browser takes part in. */
import { Throttle } from "../training/throttle.js";
import { coordinated, LiveJob, takenPartIn } from "./live-job.js";

/** A participant's page looks at its job when the round or the status changed; rounds may be short. */
const LOOK_GAP_MS = 1_000;
/** What a session that is not the coordinator's (any more) is answered. */
const NOT_MINE = ["unauthorized", "signed_out", "forbidden", "not_found"];

export class Following {
  /** What this browser took part in when it was last told. */ #seen = "";
  /** Whether the page was told which job to watch. */ #pinned = false;
  #look = new Throttle(() => void this.refresh().catch((error) => this.#failed(error)), LOOK_GAP_MS);
  #live;
  #state;
  #control;
  #identity;
  #failed;

  /**
   * @param {{state: import("./state.js").StateStore, control: import("./control-client.js").ControlClient, http: import("../net/http.js").Http,
   *   identity: import("./peer.js").PeerIdentity, failed: (error: unknown) => void}} of `failed` hears what went wrong in the background
   */
  constructor({ state, control, http, identity, failed }) {
    this.#state = state;
    this.#control = control;
    this.#identity = identity;
    this.#failed = failed;
    const tell = (/** @type {import("./live-job.js").Told} */ told) => {
      state.told = told;
      state.changed();
    };
    this.#live = new LiveJob({ http, tell, failed });
  }

  /** The job that this page follows as its coordinator. */
  get coordinatedId() {
    return this.#live.coordinatedId;
  }

  get wire() {
    return this.#live.wire;
  }

  /** A job that the signed-in person coordinates, whatever this browser takes part in; or none. @param {string | null} id */
  async watch(id) {
    this.#pinned = id !== null;
    await this.#coordinate(id);
  }

  /** A job that this browser was just made the coordinator's device of: shown as long as it is. @param {string} id */
  async open(id) {
    this.#pinned = false;
    await this.#coordinate(id);
  }

  /** @param {string | null} id */
  async #coordinate(id) {
    this.#seen = "";
    this.#state.diagnostics.clear();
    await this.#live.follow(id === null ? null : coordinated(id));
    if (this.#identity.known()) await this.#control.call("watch", { jobId: id });
  }

  /** A page that was told to watch no job shows the one that this browser takes part in. @param {import("../types.js").PeerJob | null} peerJob */
  async followPeer(peerJob) {
    const seen = peerJob ? [peerJob.id, peerJob.role, peerJob.status, peerJob.round, peerJob.state].join() : "";
    const before = this.#seen;
    if (this.#pinned || seen === before) return;
    this.#seen = seen;
    if (!peerJob) return this.#coordinate(null);
    const { id, role } = peerJob;
    if (before.startsWith(`${id},${role},`) || (role === "coordinator" && id === this.coordinatedId)) return this.#look.call();
    if (role !== "coordinator") return this.#takePart();
    try {
      await this.#coordinate(id);
    } catch (error) {
      if (!NOT_MINE.includes(/** @type {{code: string}} */ (error).code)) throw error;
      await this.#takePart();
    }
    this.#seen = seen;
  }

  async #takePart() {
    this.#state.diagnostics.clear();
    await this.#live.follow(takenPartIn());
  }

  refresh() {
    return this.#live.refresh();
  }

  /** Hints may be lost: a job that still changes is looked at anyway. */
  refreshIfChanging() {
    const { wire } = this.#live;
    if (wire && (wire.status !== "completed" || wire.validating.length > 0)) this.#look.call();
  }

  /** What a command about this job answered. @param {string} id @param {Record<string, any> | null} wire */
  accept(id, wire) {
    return this.#live.accept(id, wire);
  }

  /** Every checkpoint, also those of long ago. */
  loadCheckpoints() {
    return this.#live.loadCheckpoints();
  }
}
