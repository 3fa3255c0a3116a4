/** The `distributed-training` API of the founding text: the public face, which pages and other people's code call. */
import { Coordinator, filesOf, jobBody, resolveFiles } from "./coordinator.js";

/** @typedef {Record<string, any>} Json */
/**
 * @typedef {{state: import("./state.js").StateStore, control: import("./control-client.js").ControlClient, http: import("../net/http.js").Http,
 *   identity: import("./peer.js").PeerIdentity, storage: import("./storage.js").DeviceStorage}} Parts
 */

export class TrainingApi {
  #state;
  #control;
  #http;
  #identity;
  #storage;
  #coordinator;
  /** @type {string | null} the job that this page watches as its coordinator */ #watched = null;
  /** @type {Promise<void> | null} */ #refreshing = null;
  #again = false;

  /** @param {Parts} parts */
  constructor({ state, control, http, identity, storage }) {
    this.#state = state;
    this.#control = control;
    this.#http = http;
    this.#identity = identity;
    this.#storage = storage;
    this.#coordinator = new Coordinator(http);
  }

  getState() {
    return this.#state.get();
  }

  /** @param {import("./state.js").Listener} listener */
  subscribe(listener) {
    return this.#state.subscribe(listener);
  }

  // A job of one's own.

  /** @param {Json} files */
  createJob(files) {
    return this.#create(files);
  }

  /** @param {Json} of */
  continueFromCheckpoint(of) {
    if (of.datasetMode !== "new" && of.datasetMode !== "resume") {
      return Promise.reject(new Error(`datasetMode must be "new" or "resume"; found ${JSON.stringify(of.datasetMode)}.`));
    }
    if (!of.checkpoint) return Promise.reject(new Error("checkpoint: choose a .weei-checkpoint file."));
    return this.#create(of);
  }

  listSavedJobs() {
    return this.#run(() => this.#coordinator.saved());
  }

  /** This browser becomes the coordinator's device. @param {string} id */
  openJob(id) {
    return this.#run(async () => {
      const job = await this.#identity.as(() => this.#coordinator.command(id, "open"));
      await this.watch(id);
      await this.#control.call("poll");
      return job;
    });
  }

  /** @param {string} id */
  deleteJob(id) {
    return this.#run(async () => {
      await this.#coordinator.delete(id);
      if (this.#watched === id) await this.watch(null);
    });
  }

  /** Follow a job that the signed-in person coordinates, without opening it here. @param {string | null} id */
  async watch(id) {
    this.#watched = id;
    this.#state.coordinated = null;
    this.#state.checkpointsComplete = false;
    this.#state.diagnostics.clear();
    if (this.#identity.known()) await this.#control.call("watch", { jobId: id });
    if (id) await this.refresh();
    else this.#state.changed();
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
      if (this.#watched) {
        await this.#coordinator.command(this.#watched, "leave");
        await this.watch(null);
        if (this.#identity.known()) await this.#control.call("poll");
      } else {
        await this.#control.call("leave");
      }
    });
  }

  /** @param {object} settings */
  updateSettings(settings) {
    return this.#command("settings", settings, "PATCH");
  }

  shuffleChunks() {
    return this.#command("shuffle");
  }

  /** @param {number} [round] */
  runValidation(round) {
    return this.#run(async () => {
      const checkpoint = await this.#coordinator.command(this.#jobId(), "validation", round === undefined ? {} : { round });
      await this.refresh();
      return checkpoint;
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
    return this.#run(() => this.#coordinator.read(this.#jobId(), "invitations"));
  }

  /** @param {string} id */
  revokeInvitation(id) {
    return this.#run(() => this.#coordinator.command(this.#jobId(), `invitations/${encodeURIComponent(id)}/revoke`));
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
      const invitation = await this.#identity.as(() => this.#http.json("POST", "/api/invitations/open", { token }));
      this.#state.invitations.set(invitation.jobId, invitation);
      return invitation;
    });
  }

  /** Facts of invitations that came without a link of this page. @param {string[]} jobIds */
  async learnInvitations(jobIds) {
    for (const jobId of jobIds.filter((id) => !this.#state.invitations.has(id))) {
      this.#state.invitations.set(jobId, { state: "invited" });
      const facts = await this.#http.retried("GET", `/api/invitations/${jobId}`);
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

  // Files.

  /** Bound to the job at the call: still served after `leave`. @param {number} [round] @returns {Promise<File>} */
  exportCheckpoint(round) {
    const job = this.#job();
    return this.#run(async () => {
      const wanted = round ?? (await this.#latestRound(job.id));
      return this.#coordinator.exportCheckpoint(job.id, job.name ?? job.info?.name ?? "job", wanted);
    });
  }

  /** @returns {Promise<File>} */
  exportModule() {
    const job = this.#job();
    return this.#run(() => this.#coordinator.exportModule(job.id, job.module));
  }

  /** Fill `state.job.checkpoints` with every checkpoint, page by page. */
  loadCheckpoints() {
    const { id } = this.#job();
    return this.#run(() =>
      this.#coordinator.checkpoints(id, (list, complete) => {
        const job = this.#state.coordinated;
        if (!job || job.id !== id) return;
        job.checkpoints = list;
        this.#state.checkpointsComplete = complete;
        this.#state.changed();
      }),
    );
  }

  /** Hints may be lost: a job that still runs is looked at anyway. */
  refreshIfRunning() {
    const { coordinated } = this.#state;
    if (coordinated && coordinated.status !== "completed") void this.refresh().catch((error) => this.#failed(error));
  }

  /** Fetch the watched job again; calls that come meanwhile are answered by one more fetch. @returns {Promise<void>} */
  refresh() {
    if (this.#refreshing) {
      this.#again = true;
      return this.#refreshing;
    }
    this.#refreshing = this.#refreshOnce().finally(() => {
      this.#refreshing = null;
      if (!this.#again) return;
      this.#again = false;
      void this.refresh().catch((error) => this.#failed(error));
    });
    return this.#refreshing;
  }

  async #refreshOnce() {
    const id = this.#watched;
    if (!id) return;
    this.#accept(id, await this.#coordinator.job(id));
  }

  /** @param {string} id @param {Json | null} job */
  #accept(id, job) {
    if (!job || job.id !== id || this.#watched !== id) return;
    const { checkpoints } = this.#state.coordinated ?? {};
    // A job that carries no checkpoints of its own keeps the pages that were loaded.
    this.#state.coordinated = { ...(checkpoints ? { checkpoints } : {}), ...job };
    this.#state.changed();
  }

  /** @param {Json} given */
  #create(given) {
    return this.#run(async () => {
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
        await this.#identity.as(() => this.#coordinator.command(jobId, "open"));
        await this.watch(jobId);
        return this.#job();
      } finally {
        this.#state.preparing = false;
      }
    });
  }

  /** @param {string} command @param {object} [body] @param {string} [method] */
  #command(command, body, method) {
    return this.#run(async () => {
      const id = this.#jobId();
      this.#accept(id, await this.#coordinator.command(id, command, body, method));
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
    const answer = await this.#coordinator.read(id, "checkpoints?limit=1");
    const [newest] = Array.isArray(answer) ? answer : answer.checkpoints;
    if (!newest) throw new Error("The job has no checkpoint yet.");
    return newest.artifact.round;
  }

  #job() {
    const { job } = this.#state.get();
    if (!job) throw new Error("No job is open in this browser.");
    return job;
  }

  #jobId() {
    if (!this.#watched) throw new Error("Only the coordinator may do this, and no job of yours is open in this browser.");
    return this.#watched;
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
    this.#state.changed();
  }
}
