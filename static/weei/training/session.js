/**
 * This device as a peer of the server: the one place that wires socket, poll, artifacts, Worker and uploads together. The server's state is the
 * truth; everything here follows from the last state that came, by whatever way.
 */
import { Client, POLL_SECONDS, PROTOCOL_VERSION, Server } from "../protocol.js";
import { Http, Problem, Unreachable } from "../net/http.js";
import { PeerSocket } from "../net/socket.js";
import { JobArtifacts } from "./artifacts.js";
import { Attempt } from "./attempt.js";
import { Contact } from "./contact.js";
import { participationOf } from "./participation.js";
import { Preparation } from "./preparation.js";
import { TrainingRunner } from "./runner.js";
import { Diagnostics } from "./snapshot.js";
import { Throttle } from "./throttle.js";
import { TransferLog } from "./transfers.js";

/** @typedef {import("../types.js").PeerState} PeerState */
/** @typedef {import("../types.js").ControlState} ControlState */
/** @typedef {{changed(state: ControlState): void, hint(jobId: string, what: string[]): void, live(jobId: string, peers: Record<string, any>): void}} SessionDelegate */
/**
 * @typedef {{base: string, peer: {peerId: string, token: string}, train: boolean, watch?: string | null,
 *   environment: import("../types.js").Environment, preferences: import("../types.js").DevicePreferences,
 *   store: import("./artifacts.js").Store, spawn: () => import("./runner.js").WorkerLike, delegate: SessionDelegate,
 *   fetch?: typeof globalThis.fetch, WebSocket?: typeof globalThis.WebSocket, now?: () => number, wall?: () => number, httpStack?: unknown}} SessionOptions
 */

const SNAPSHOT_MS = 2_000;
/** Fast rounds change stages tens of times a second; the server takes at most 20 messages. */
const SNAPSHOT_GAP_MS = 200;
const PAGE_GAP_MS = 100;
const REMEMBERED_ATTEMPTS = 50;

export class TrainingSession {
  /** @type {PeerState | null} */ #state = null;
  /** @type {Attempt | null} */ #attempt = null;
  /** @type {Set<string>} attempts that are over for this device, whatever an older message says */ #over = new Set();
  /** @type {number | null} */ #session = null;
  /** @type {ControlState["sessionState"]} */ #sessionState = "connecting";
  /** @type {string | null} */ #error = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #pollTimer;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #snapshotTimer;
  /** @type {Promise<void> | null} */ #polling = null;
  #stateCount = 0;
  #train;
  #watch;
  #options;
  #now;

  /** @param {SessionOptions} options */
  constructor(options) {
    const { base, peer, environment, preferences, fetch, WebSocket, now = () => performance.now(), wall = Date.now } = options;
    this.#options = options;
    this.#train = options.train;
    this.#watch = options.watch ?? null;
    this.#now = now;
    this.contact = new Contact({ now, wall });
    this.diagnostics = new Diagnostics({ environment, preferences, now, wall });
    this.http = new Http({ base, fetch, headers: () => ({ Authorization: `Bearer ${peer.token}` }) });
    this.#toPage = new Throttle(() => options.delegate.changed(this.state()), PAGE_GAP_MS);
    this.#toServer = new Throttle(() => this.#sendSnapshot(), SNAPSHOT_GAP_MS);
    this.transfers = new TransferLog({ now, changed: () => this.#toPage.call() });
    this.artifacts = new JobArtifacts({ http: this.http, store: options.store, transfers: this.transfers, peerId: () => peer.peerId });
    this.runner = new TrainingRunner(options.spawn);
    const url = new URL("/ws/peer", base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    this.#socket = new PeerSocket({ url: url.href, delegate: this, ...(WebSocket ? { WebSocket } : {}) });
    this.#preparation = new Preparation({
      artifacts: this.artifacts,
      runner: this.runner,
      http: this.http,
      enter: (stage) => this.#enter(stage),
      answered: (state) => this.#apply(state),
      model: (job, info) => this.#named(job.module.sha256, info),
      failed: (message) => this.#fail(message),
    });
  }

  #toPage;
  #toServer;
  #socket;
  #preparation;

  start() {
    this.#socket.start();
    this.#schedulePoll();
    this.contact.start((gapMs) => this.#woke(gapMs));
    this.#snapshotTimer ??= setInterval(() => {
      if (this.#state?.job) this.#toServer.call();
      this.#toPage.call();
    }, SNAPSHOT_MS);
  }

  stop() {
    this.#drop("This page is closing.");
    this.#preparation.abort();
    this.runner.terminate();
    this.#socket.stop();
    this.contact.stop();
    clearTimeout(this.#pollTimer);
    clearInterval(this.#snapshotTimer);
    this.#toPage.stop();
    this.#toServer.stop();
  }

  /** @returns {ControlState} */
  state() {
    const peerJob = this.#state?.job ?? null;
    const connected = this.#socket.connected || this.contact.silentMs() < POLL_SECONDS * 1500;
    const replaced = this.#sessionState === "replaced";
    this.diagnostics.activeWorkers = this.runner.busy ? 1 : 0;
    return {
      peerId: this.#options.peer.peerId,
      sessionState: this.#sessionState,
      invitations: this.#state?.invitations ?? [],
      peerJob,
      participation: participationOf({ peerJob, diagnostics: this.diagnostics, connected, replaced, error: this.#error }),
      snapshot: peerJob ? this.diagnostics.take() : null,
      transfers: this.transfers.list(),
      transferErrors: { ...this.transfers.errors },
      activeWorkers: this.diagnostics.activeWorkers,
    };
  }

  // What the page asks for.

  /** @param {string | null} jobId */
  watch(jobId) {
    this.#watch = jobId;
    this.#socket.send({ type: Client.watch, jobId });
  }

  /** Take the training over from whichever tab has it now. */
  trainHere() {
    this.#train = true;
    this.#session = null;
    this.#sessionState = "connecting";
    this.#socket.restart();
  }

  /** @param {import("../types.js").DevicePreferences} preferences */
  setPreferences(preferences) {
    this.diagnostics.preferences = preferences;
    this.#toServer.call();
    this.#toPage.call();
  }

  /** @param {boolean} paused */
  async setPaused(paused) {
    if (paused) this.#drop("The contribution was paused.");
    else this.#preparation.forgive();
    return this.command("/api/peer/pause", { jobId: this.#jobId(), paused });
  }

  async leave() {
    const jobId = this.#jobId();
    this.#drop("The job was left.");
    this.#preparation.abort();
    return this.command("/api/peer/leave", { jobId });
  }

  /**
   * A command whose answer is this peer's state. Not tried again: the person sees what failed.
   * @param {string} path @param {object} body
   */
  async command(path, body) {
    this.#apply(await this.http.json("POST", path, body));
  }

  #jobId() {
    const id = this.#state?.job?.id;
    if (!id) throw new Error("This browser takes part in no job.");
    return id;
  }

  // Delegate of the socket.

  hello() {
    const held = this.#train ? this.#attempt?.id : undefined;
    return {
      protocol: PROTOCOL_VERSION,
      token: this.#options.peer.token,
      train: this.#train,
      ...(this.#train && this.#session !== null ? { session: this.#session } : {}),
      ...(held ? { attemptId: held } : {}),
      ...(this.#watch ? { watch: this.#watch } : {}),
    };
  }

  /** @param {import("../types.js").ServerMessage} message */
  socketMessage(message) {
    this.contact.heard();
    if (message.type === Server.welcome) this.#welcomed(message);
    else if (message.type === Server.state) this.#apply(message);
    else if (message.type === Server.job) this.#options.delegate.hint(message.jobId, message.what);
    else if (message.type === Server.live) this.#options.delegate.live(message.jobId, message.peers);
    else this.#error = message.message;
    this.#toPage.call();
  }

  socketDown() {
    if (this.#sessionState === "connected") this.#sessionState = "connecting";
    this.#toPage.call();
  }

  /** @param {"replaced" | "unauthorized" | "protocol"} reason */
  socketRefused(reason) {
    this.#drop("Another tab of this browser trains now.");
    this.#preparation.abort();
    this.runner.terminate();
    this.#train = false;
    this.#session = null;
    if (reason === "unauthorized") return this.#signedOut();
    if (reason === "protocol") return this.#outdated();
    this.#sessionState = "replaced";
    this.#enter("waiting");
    this.#socket.restart();
  }

  /** @param {import("../types.js").Welcome} message */
  #welcomed(message) {
    if (message.protocol !== PROTOCOL_VERSION) return this.#outdated();
    if (this.#train) this.#session = message.session;
    if (this.#sessionState !== "replaced") this.#sessionState = "connected";
    this.diagnostics.sequence = Math.max(this.diagnostics.sequence, message.sequence);
    if (this.#state?.job) this.#toServer.call();
    if (this.#watch) this.#options.delegate.hint(this.#watch, ["everything"]);
  }

  #signedOut() {
    this.#sessionState = "signedOut";
    this.#error = "The server does not know this browser any more. Open the invitation again to take part.";
    this.#state = null;
    this.#socket.stop();
    clearTimeout(this.#pollTimer);
    this.#toPage.call();
  }

  #outdated() {
    this.#sessionState = "outdated";
    this.#error = "The server was updated. Reload this page.";
    this.#socket.stop();
    this.#toPage.call();
  }

  // The state, by poll.

  #schedulePoll() {
    clearTimeout(this.#pollTimer);
    if (this.#sessionState === "signedOut") return;
    this.#pollTimer = setTimeout(() => void this.poll(), POLL_SECONDS * 1000);
  }

  /** Ask the server once; an answer that a newer message overtook is not applied. */
  poll() {
    this.#polling ??= this.#pollOnce().finally(() => {
      this.#polling = null;
      this.#schedulePoll();
    });
    return this.#polling;
  }

  async #pollOnce() {
    const before = this.#stateCount;
    try {
      const state = await this.http.json("GET", "/api/peer/state");
      this.contact.heard();
      if (before === this.#stateCount) this.#apply(state);
    } catch (error) {
      if (error instanceof Problem && error.code === "unauthorized") this.socketRefused("unauthorized");
      else if (!(error instanceof Unreachable)) this.#error = error instanceof Error ? error.message : String(error);
    }
  }

  /** A machine that slept asks before it does anything. @param {number} gapMs */
  #woke(gapMs) {
    if (gapMs > POLL_SECONDS * 1000) this.#socket.restart();
    void this.poll();
    this.#toServer.call();
  }

  /** Before time is spent on work that may be somebody else's by now (C30). @param {Attempt} attempt */
  async #confirm(attempt) {
    while (this.#attempt === attempt && (this.contact.leaseMayHaveEnded() || this.#now() >= attempt.deadline)) {
      await this.poll();
      if (!this.contact.leaseMayHaveEnded()) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  // What follows from a state.

  /** @param {PeerState} state */
  #apply(state) {
    this.#stateCount += 1;
    this.contact.heard();
    this.#state = state;
    this.#error = null;
    this.#schedulePoll();
    this.#reconcile(state);
    this.#toPage.call();
  }

  /** @param {PeerState} state */
  #reconcile({ job, assignment }) {
    if (!this.#train) return;
    if (!job) {
      this.#preparation.abort();
      this.#leaveAssignment(null);
      return this.#drop("The job has ended for this device.");
    }
    if (job.pausedByPeer || job.pausedByCoordinator) {
      this.#drop("The contribution is paused.");
      this.diagnostics.assignment = null;
      return void this.#enter("waiting");
    }
    if (job.trains && !job.ready) this.#preparation.start(job);
    if (assignment && (this.#over.has(assignment.attemptId) || assignment.attemptId === this.#attempt?.id)) return;
    this.#drop("The server gave this work to somebody else or took it back.");
    if (assignment) this.#begin(job, assignment);
    else this.#leaveAssignment(job);
  }

  /** No assignment now: waiting, unless the last one's merge is awaited or its error is shown. @param {import("../types.js").PeerJob | null} job */
  #leaveAssignment(job) {
    const { stage } = this.diagnostics.clock;
    const awaited = stage === "awaitingAggregation" && job && job.round === this.diagnostics.assignment?.round;
    if (awaited || stage === "error" || this.#preparation.running) return;
    this.diagnostics.assignment = null;
    this.#enter("waiting");
  }

  /** @param {import("../types.js").PeerJob} job @param {import("../types.js").Assignment} assignment */
  #begin(job, assignment) {
    const attempt = new Attempt(assignment, {
      job,
      artifacts: this.artifacts,
      runner: this.runner,
      http: this.http,
      transfers: this.transfers,
      peerId: this.#options.peer.peerId,
      now: this.#now,
      httpStack: this.#options.httpStack,
      confirm: (current) => this.#confirm(current),
      enter: (stage) => this.#attempt === attempt && this.#enter(stage),
      progress: (report) => {
        this.diagnostics.progress(report);
        this.#toPage.call();
      },
      model: (info) => this.#named(assignment.moduleSha256, info),
    });
    this.#attempt = attempt;
    this.diagnostics.begin(assignment);
    void attempt.run().then((outcome) => this.#ended(attempt, outcome));
  }

  /** @param {Attempt} attempt @param {import("./attempt.js").Outcome} outcome */
  #ended(attempt, outcome) {
    if (outcome.kind !== "aborted") this.#remember(attempt.id);
    if (this.#attempt !== attempt) return;
    this.#attempt = null;
    if (outcome.kind === "received") return void this.#enter("awaitingAggregation");
    if (outcome.kind === "unauthorized") return this.socketRefused("unauthorized");
    if (outcome.kind === "failed" || outcome.kind === "refused") this.#fail(outcome.reason);
    else this.#enter("waiting");
    if (outcome.kind === "failed") void this.#report(attempt.id, outcome.reason);
    else void this.poll();
  }

  /** @param {string} attemptId @param {string} reason */
  async #report(attemptId, reason) {
    try {
      this.#apply(await this.http.retried("POST", `/api/peer/attempts/${attemptId}/failed`, { reason: reason.slice(0, 500) }));
    } catch {
      // The attempt was over before its failure could be told: what holds now comes with the state.
      void this.poll();
    }
  }

  /** End the running work. An update whose bytes have all left is not called back. @param {string} reason */
  #drop(reason) {
    const attempt = this.#attempt;
    if (!attempt) return;
    this.#attempt = null;
    if (attempt.sent) {
      this.#remember(attempt.id);
      return void this.#enter("awaitingAggregation");
    }
    attempt.abort(reason);
    if (this.runner.busy) this.runner.terminate();
  }

  /** @param {string} attemptId */
  #remember(attemptId) {
    this.#over.add(attemptId);
    const [oldest] = this.#over;
    if (oldest && this.#over.size > REMEMBERED_ATTEMPTS) this.#over.delete(oldest);
  }

  // What is told of it.

  /** @param {import("../types.js").Stage} stage */
  #enter(stage) {
    if (!this.diagnostics.enter(stage)) return;
    this.#toServer.call();
    this.#toPage.call();
  }

  /** @param {string} message */
  #fail(message) {
    this.diagnostics.error = message;
    this.#enter("error");
    this.#toServer.call();
    this.#toPage.call();
  }

  /** @param {string} wasmSha256 @param {{id: string, version: string}} info */
  #named(wasmSha256, { id, version }) {
    this.diagnostics.model = { id, version, wasmSha256, wgsl: { present: false, sha256: [] } };
  }

  #sendSnapshot() {
    if (!this.#train || !this.#state?.job) return;
    this.diagnostics.activeWorkers = this.runner.busy ? 1 : 0;
    this.#socket.send({ type: Client.diagnostics, snapshot: this.diagnostics.take() });
  }
}
