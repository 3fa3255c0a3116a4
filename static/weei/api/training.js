/** The `distributed-training` API of the founding text: the public face, which pages and other people's code call. */
import { Coordinator, filesOf, jobBody, resolveFiles } from "./coordinator.js";
import { Following } from "./following.js";

/** @typedef {Record<string, any>} Json */
/** @typedef {import("../weei.js").DistributedTraining} DistributedTraining */
/**
 * @typedef {{state: import("./state.js").StateStore, control: import("./control-client.js").ControlClient, http: import("../net/http.js").Http,
 *   identity: import("./peer.js").PeerIdentity, storage: import("./storage.js").DeviceStorage, log: import("./debug-log.js").DebugLog}} Parts
 */

/** @implements {DistributedTraining} */
export class TrainingApi {
  #state;
  #control;
  #http;
  #identity;
  #storage;
  #coordinator;
  #following;
  #log;

  /** @param {Parts} parts */
  constructor({ state, control, http, identity, storage, log }) {
    this.#state = state;
    this.#control = control;
    this.#http = http;
    this.#identity = identity;
    this.#storage = storage;
    this.#log = log;
    this.#coordinator = new Coordinator(http);
    this.#following = new Following({ state, control, http, identity, failed: (error) => this.#failed(error) });
  }

  getState() {
    return this.#state.get();
  }

  /** @param {import("./state.js").Listener} listener */
  subscribe(listener) {
    return this.#state.subscribe(listener);
  }

  // A job of one's own.

  /** @param {import("../weei.js").TrainingJobFiles} files */
  createJob(files) {
    return this.#create(files);
  }

  /** @param {import("../weei.js").ContinuedJobFiles} of */
  async continueFromCheckpoint(of) {
    if (of.datasetMode !== "new" && of.datasetMode !== "resume") {
      throw new Error(`datasetMode must be "new" or "resume"; found ${JSON.stringify(of.datasetMode)}.`);
    }
    if (!of.checkpoint) throw new Error("checkpoint: choose a .weei-checkpoint file.");
    return this.#create(of);
  }

  listSavedJobs() {
    return this.#run(() => this.#coordinator.saved());
  }

  /** This browser becomes the coordinator's device. @param {string} id */
  openJob(id) {
    return this.#run(async () => {
      await this.#openHere(id);
      return this.#jobState();
    });
  }

  /** @param {string} id */
  deleteJob(id) {
    return this.#run(async () => {
      await this.#coordinator.delete(id);
      if (this.#following.coordinatedId === id) await this.watch(null);
    });
  }

  /** Follow a job that the signed-in person coordinates, without opening it here. @param {string | null} id */
  watch(id) {
    return this.#following.watch(id);
  }

  /** @param {import("../types.js").PeerJob | null} peerJob what this browser takes part in, as the server just said */
  followPeer(peerJob) {
    void this.#following.followPeer(peerJob).catch((error) => this.#failed(error));
  }

  /** Somebody signed in or out at this page: what was followed in the name of the one before is asked for anew. */
  async userChanged() {
    if (this.#following.coordinatedId === null) return;
    await this.watch(null);
    await this.#following.followPeer(this.#state.control?.peerJob ?? null);
  }

  start() {
    return this.#command("start");
  }

  pause() {
    return this.#command("pause");
  }

  resume() {
    return this.#command("resume");
  }

  finish() {
    return this.#command("finish");
  }

  /** Detaches this browser; the job goes on. */
  leave() {
    return this.#run(async () => {
      const id = this.#following.coordinatedId;
      if (id !== null) {
        await this.#coordinator.command(id, "leave");
        // First, or what was last told of this browser would show the job again.
        if (this.#identity.known()) await this.#control.call("poll");
        await this.watch(null);
      } else {
        await this.#control.call("leave");
      }
    });
  }

  /** @param {Partial<import("../weei.js").TrainingSettings>} settings */
  updateSettings(settings) {
    return this.#command("settings", settings, "PATCH");
  }

  shuffleChunks() {
    return this.#command("shuffle");
  }

  /** @param {number} [round] */
  runValidation(round) {
    return this.#run(async () => {
      await this.#coordinator.command(this.#jobId(), "validation", round === undefined ? {} : { round });
      await this.refresh();
    });
  }

  /** @param {number} item one of `state.job.held`, which paused the job by failing three times */
  retryItem(item) {
    return this.#command("retry-item", { item });
  }

  /** The job goes on without it, and ends incomplete. @param {number} item */
  skipItem(item) {
    return this.#command("skip-item", { item });
  }

  // People.

  /** @param {{uses?: number, expiresAt?: string | number}} [options] */
  createInvitation(options = {}) {
    return this.#run(() => this.#coordinator.command(this.#jobId(), "invitations", options));
  }

  listInvitations() {
    return this.#run(() => this.#coordinator.list(this.#jobId(), "invitations"));
  }

  /** @param {string} id */
  revokeInvitation(id) {
    return this.#run(async () => {
      const jobId = this.#jobId();
      await this.#coordinator.command(jobId, `invitations/${encodeURIComponent(id)}/revoke`);
      return this.#coordinator.list(jobId, "invitations");
    });
  }

  /** @param {string} peerId */
  invite(peerId) {
    return this.#command(`participants/${encodeURIComponent(peerId)}/invite`);
  }

  /** @param {string} peerId */
  removeParticipant(peerId) {
    return this.#command(`participants/${encodeURIComponent(peerId)}/remove`);
  }

  /** @param {string} peerId @param {boolean} paused */
  pauseParticipant(peerId, paused) {
    return this.#command(`participants/${encodeURIComponent(peerId)}/pause`, { paused });
  }

  // Taking part.

  /** What an invitation link offers. Nothing of the job is fetched, nothing is used up. @param {string} token */
  openInvitation(token) {
    return this.#run(async () => {
      const invitation = await this.#identity.as(() => this.#http.json("POST", "/api/v1/invitations/open", { token }));
      this.#state.invitations.set(invitation.jobId, invitation);
      return invitation;
    });
  }

  /** Facts of invitations that came without a link of this page. @param {string[]} jobIds */
  async learnInvitations(jobIds) {
    for (const jobId of jobIds.filter((id) => !this.#state.invitations.has(id))) {
      this.#state.invitations.set(jobId, { state: "invited" });
      const facts = await this.#http.retried("GET", `/api/v1/invitations/${jobId}`);
      this.#state.invitations.set(jobId, facts);
      this.#state.changed();
    }
  }

  /** @param {string} jobId @param {boolean} accepted */
  decideInvitation(jobId, accepted) {
    return this.#run(async () => {
      await this.#control.call("decide", { jobId, accepted });
      const invitation = this.#state.invitations.get(jobId);
      if (invitation) invitation.state = accepted ? "approved" : "declined";
    });
  }

  pauseContribution() {
    return this.#run(() => this.#control.call("setPaused", { paused: true }));
  }

  resumeContribution() {
    return this.#run(() => this.#control.call("setPaused", { paused: false }));
  }

  trainHere() {
    return this.#run(() => this.#control.call("trainHere"));
  }

  // This device.

  /** @param {number} maxLocalWorkers */
  setMaxLocalWorkers(maxLocalWorkers) {
    return this.#prefer({ maxLocalWorkers });
  }

  /** @param {import("../types.js").DevicePreferences["backendPreference"]} backendPreference */
  setBackendPreference(backendPreference) {
    return this.#prefer({ backendPreference });
  }

  /** @param {number} gpuMemoryBudgetMiB */
  setGpuMemoryBudgetMiB(gpuMemoryBudgetMiB) {
    return this.#prefer({ gpuMemoryBudgetMiB });
  }

  /** Another tab of this browser changed them. */
  takePreferences() {
    this.#state.preferences = this.#storage.preferences(this.#state.cores);
    this.#state.changed();
    void this.#control.call("preferences", { preferences: this.#state.preferences });
  }

  // The debug log of this browser.

  getDebugLog() {
    return this.#log.events();
  }

  clearDebugLog() {
    this.#log.clear();
  }

  /** @returns {File} */
  exportDebugLog() {
    return this.#log.export();
  }

  // Files.

  /** Bound to the job at the call: still served after `leave`. @param {number} [round] @returns {Promise<File>} */
  exportCheckpoint(round) {
    return this.#run(async () => {
      const { id, name } = this.#coordinatedJob();
      const wanted = round ?? (await this.#latestRound(id));
      return this.#coordinator.exportCheckpoint(id, name, wanted);
    });
  }

  /** @returns {Promise<File>} */
  exportModule() {
    return this.#run(async () => {
      const { id, module } = this.#coordinatedJob();
      return this.#coordinator.exportModule(id, module);
    });
  }

  /** Wait until `state.job.checkpoints` holds every checkpoint. */
  loadCheckpoints() {
    return this.#run(async () => {
      if (!this.#following.wire) throw new Error("No job is open in this browser.");
      await this.#following.loadCheckpoints();
    });
  }

  /** What is kept for this person on the server, and by this browser. */
  getStorageInventory() {
    return this.#run(async () => {
      const [server, browser] = await Promise.all([this.#coordinator.storage(), this.#control.call("storage")]);
      return { server, browser };
    });
  }

  refreshIfChanging() {
    this.#following.refreshIfChanging();
  }

  refresh() {
    return this.#following.refresh();
  }

  /** @param {Json} order @returns {Promise<import("../weei.js").TrainingJob>} */
  #create({ open = true, ...given }) {
    return this.#run(async () => {
      // Before anything is sent: the server would refuse it only when the job is made.
      if (open && this.#state.control?.peerJob) throw Object.assign(new Error("Leave the current job first."), { code: "leave_first" });
      this.#state.preparing = true;
      this.#state.draft = null;
      try {
        const files = await resolveFiles(given);
        const headers = this.#http.headers();
        const uploaded = await this.#control.call("upload", { base: this.#http.base, headers, files: filesOf(files) });
        const jobId = await this.#coordinator.create(jobBody(files, uploaded), (draft) => {
          this.#state.draft = draft;
          this.#state.changed();
        });
        await (open ? this.#openHere(jobId) : this.watch(jobId));
        return this.#jobState();
      } finally {
        this.#state.preparing = false;
      }
    });
  }

  /** @param {string} id */
  async #openHere(id) {
    await this.#identity.as(() => this.#coordinator.command(id, "open"));
    await this.#following.open(id);
    await this.#control.call("poll");
  }

  /** @param {string} command @param {object} [body] @param {string} [method] */
  #command(command, body, method) {
    return this.#run(async () => {
      const id = this.#jobId();
      await this.#following.accept(id, await this.#coordinator.command(id, command, body, method));
    });
  }

  /** @param {Partial<import("../types.js").DevicePreferences>} change */
  #prefer(change) {
    return this.#run(async () => {
      const preferences = { ...this.#state.preferences, ...change };
      this.#storage.setPreferences(preferences);
      this.#state.preferences = preferences;
      await this.#control.call("preferences", { preferences });
    });
  }

  /** @param {string} id */
  async #latestRound(id) {
    const [newest] = await this.#coordinator.read(id, "checkpoints?limit=1");
    if (!newest) throw new Error("The job has no checkpoint yet.");
    return newest.artifact.round;
  }

  #jobState() {
    const { job } = this.#state.get();
    if (!job) throw new Error("The job was closed in this browser meanwhile.");
    return job;
  }

  #coordinatedJob() {
    this.#jobId();
    const { wire } = this.#following;
    if (!wire) throw new Error("The job is still being read from the server; try again in a moment.");
    return wire;
  }

  /** @returns {string} the job that a coordinator's command is about */
  #jobId() {
    const id = this.#following.coordinatedId;
    if (id !== null) return id;
    const { wire } = this.#following;
    if (wire) throw new Error(`Only the coordinator may do this; this browser takes part in “${wire.name}” as a participant.`);
    throw new Error("No job of yours is open in this browser: create one, or open a saved one.");
  }

  /**
   * One command: busy while it runs, its error kept for display and thrown.
   * @template T @param {() => Promise<T>} action @returns {Promise<T>}
   */
  async #run(action) {
    this.#state.commands += 1;
    this.#state.error = undefined;
    this.#state.changed();
    try {
      return await action();
    } catch (error) {
      this.#failed(error);
      throw error;
    } finally {
      this.#state.commands -= 1;
      this.#state.changed();
    }
  }

  /** @param {unknown} error */
  #failed(error) {
    this.#state.error = error instanceof Error ? error.message : String(error);
    this.#log.record("error", { message: this.#state.error });
    this.#state.changed();
  }
}
