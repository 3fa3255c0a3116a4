/**
 * This device as a peer of the server: the one place that wires socket, poll, artifacts, Worker and uploads together. The server's state is the
 * truth; everything here follows from the last state that came, by whatever way.
 */
import { Client, POLL_SECONDS, PROTOCOL_VERSION, Server } from "../protocol.js";
import { credentials } from "../net/credentials.js";
import { Http } from "../net/http.js";
import { PeerSocket } from "../net/socket.js";
import { JobArtifacts } from "./artifacts.js";
import { Assignments } from "./assignments.js";
import { Contact } from "./contact.js";
import { DeviceEvents } from "./events.js";
import { probeGpu } from "./gpu.js";
import { participationOf } from "./participation.js";
import { Poller } from "./poller.js";
import { WorkerPool } from "./pool.js";
import { Preparation } from "./preparation.js";
import { Readiness } from "./readiness.js";
import { Diagnostics } from "./snapshot.js";
import { Throttle } from "./throttle.js";
import { TransferLog } from "./transfers.js";
import { deviceWorkers } from "./workers.js";

/** @typedef {import("../types.js").PeerState} PeerState */
/** @typedef {import("../types.js").ControlState} ControlState */
/**
 * @typedef {{changed(state: ControlState): void, hint(jobId: string, what: string[]): void, live(jobId: string, peers: Record<string, any>): void,
 *   log: import("./events.js").Told}} SessionDelegate
 */
/**
 * @typedef {{base: string, peer: {peerId: string, token: string}, train: boolean, watch?: string | null, user?: string | null,
 *   environment: import("../types.js").Environment, preferences: import("../types.js").DevicePreferences,
 *   store: import("./artifacts.js").Store, spawn: () => import("./runner.js").WorkerLike, delegate: SessionDelegate,
 *   gpu?: import("./gpu.js").Gpu, fetch?: typeof globalThis.fetch, WebSocket?: typeof globalThis.WebSocket, now?: () => number, wall?: () => number, httpStack?: unknown}} SessionOptions
 */

const SNAPSHOT_MS = 2_000;
/** Fast rounds change stages tens of times a second; the server takes at most 20 messages. */
const SNAPSHOT_GAP_MS = 200;
const PAGE_GAP_MS = 100;

export class TrainingSession {
  /** @type {PeerState | null} */ #state = null;
  /** @type {number | null} */ #session = null;
  /** @type {ControlState["sessionState"]} */ #sessionState = "connecting";
  /** @type {string | null} */ #error = null;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #snapshotTimer;
  /** @type {Throttle} */ #toPage;
  /** @type {Throttle} */ #toServer;
  /** @type {PeerSocket} */ #socket;
  /** @type {Poller} */ #poller;
  /** @type {Preparation} */ #preparation;
  /** @type {Assignments} */ #assignments;
  /** @type {Readiness} */ #readiness;
  /** @type {string | null} the job that the running socket was told to watch */ #watched = null;
  #probed = false;
  #train;
  #user;
  #watch;
  #options;

  /** @param {SessionOptions} options */
  constructor(options) {
    const { base, peer, environment, preferences, fetch, WebSocket, httpStack, now = () => performance.now(), wall = Date.now } = options;
    this.#options = options;
    this.#train = options.train;
    this.#user = options.user ?? null;
    this.#watch = options.watch ?? null;
    this.#toPage = new Throttle(() => options.delegate.changed(this.state()), PAGE_GAP_MS);
    this.#toServer = new Throttle(() => this.#sendSnapshot(), SNAPSHOT_GAP_MS);
    this.contact = new Contact({ now, wall });
    this.diagnostics = new Diagnostics({ environment, preferences, now, wall });
    this.events = new DeviceEvents({ now, wall, told: options.delegate.log, about: () => this.diagnostics.assignment });
    this.transfers = new TransferLog({
      now,
      changed: () => this.#toPage.call(),
      failed: (artifactId, message) => this.events.tell("transfer.failed", { artifactId, message }),
    });
    const workers = () => deviceWorkers(this.diagnostics.preferences.maxLocalWorkers, environment.logicalCores);
    this.pool = new WorkerPool(options.spawn, workers);
    const http = new Http({ base, fetch, headers: () => credentials(peer, this.#user) });
    this.http = http;
    const artifacts = new JobArtifacts({ http, store: options.store, transfers: this.transfers, events: this.events, peerId: () => peer.peerId });
    const url = new URL("/ws/peer", base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    this.#socket = new PeerSocket({ url: url.href, delegate: this, ...(WebSocket ? { WebSocket } : {}) });
    const { pool, transfers, contact, diagnostics, events } = this;
    const parts = { artifacts, http, pool, transfers, contact, diagnostics, events };
    const told = this.#listeners();
    this.#poller = new Poller({ http, ...told, heard: () => this.contact.heard() });
    this.#readiness = new Readiness({ ...parts, ...told, workers });
    this.#preparation = new Preparation({ ...parts, ...told, readiness: this.#readiness });
    this.#assignments = new Assignments({ ...parts, ...told, peerId: peer.peerId, now, httpStack });
  }

  /** What the parts tell this session. */
  #listeners() {
    return {
      enter: (/** @type {import("../types.js").Stage} */ stage) => this.#changed(this.diagnostics.enter(stage)),
      failed: (/** @type {string} */ message) => this.#fail(message),
      changed: () => this.#toPage.call(),
      named: (/** @type {string} */ wasmSha256, /** @type {{id: string, version: string}} */ info) => this.diagnostics.name(wasmSha256, info),
      poll: () => this.#poller.poll(),
      apply: (/** @type {PeerState} */ state) => this.#apply(state),
      unauthorized: () => this.socketRefused("unauthorized"),
    };
  }

  start() {
    this.#socket.start();
    this.#poller.start();
    this.contact.start((gapMs) => this.#woke(gapMs));
    this.#snapshotTimer ??= setInterval(() => {
      if (this.#state?.job) this.#toServer.call();
      this.#toPage.call();
    }, SNAPSHOT_MS);
  }

  stop() {
    this.#endWork("This page is closing.");
    this.#socket.stop();
    this.#poller.stop();
    this.contact.stop();
    clearInterval(this.#snapshotTimer);
    this.#toPage.stop();
    this.#toServer.stop();
  }

  /** @returns {ControlState} */
  state() {
    const peerJob = this.#state?.job ?? null;
    // A socket whose network is gone stays open for minutes; only what was heard tells, and a poll asks every few seconds.
    const connected = this.contact.silentMs() < POLL_SECONDS * 1500;
    const replaced = this.#sessionState === "replaced";
    this.diagnostics.activeWorkers = this.pool.active;
    return {
      peerId: this.#options.peer.peerId,
      sessionState: this.#sessionState,
      invitations: this.#state?.invitations ?? [],
      peerJob,
      participation: participationOf({ peerJob, diagnostics: this.diagnostics, connected, replaced, error: this.#error }),
      snapshot: this.#tells() ? this.diagnostics.take() : null,
      transfers: this.transfers.list(),
      transferErrors: { ...this.transfers.errors },
      activeWorkers: this.diagnostics.activeWorkers,
    };
  }

  // What the page asks for.

  poll() {
    return this.#poller.poll();
  }

  /** @param {string | null} jobId */
  watch(jobId) {
    this.#watch = jobId;
    if (this.#socket.send({ type: Client.watch, jobId })) this.#watched = jobId;
  }

  /** For whom this page of another site acts from now on. @param {string | null} user a token */
  setUser(user) {
    this.#user = user;
    this.#socket.restart();
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
    if (this.#train && this.#state?.job?.ready) this.#readiness.renew(this.#state.job);
    this.#toServer.call();
    this.#toPage.call();
  }

  /** Pausing ends the running work before the server is even asked. @param {boolean} paused */
  async setPaused(paused) {
    const jobId = this.#jobId();
    if (paused) this.#assignments.drop("The contribution was paused.");
    else this.#preparation.forgive();
    return this.command("/api/v1/peer/pause", { jobId, paused });
  }

  async leave() {
    const jobId = this.#jobId();
    this.#assignments.drop("The job was left.");
    this.#preparation.abort();
    return this.command("/api/v1/peer/leave", { jobId });
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
    const held = this.#train ? this.#assignments.heldId : undefined;
    this.#watched = this.#watch;
    return {
      protocol: PROTOCOL_VERSION,
      token: this.#options.peer.token,
      train: this.#train,
      ...(this.#train && this.#session !== null ? { session: this.#session } : {}),
      ...(held ? { attemptId: held } : {}),
      ...(this.#watch ? { watch: this.#watch } : {}),
      ...(this.#user ? { user: this.#user } : {}),
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
    if (this.#sessionState === "connected") {
      this.#sessionState = "connecting";
      this.events.tell("connection.lost");
    }
    this.#toPage.call();
  }

  /** @param {"replaced" | "unauthorized" | "protocol"} reason */
  socketRefused(reason) {
    this.events.tell("connection.refused", { reason });
    this.#endWork("Another tab of this browser trains now.");
    this.#train = false;
    this.#session = null;
    if (reason === "unauthorized") return this.#end("signedOut", "The server does not know this browser any more. Open the invitation again to take part.");
    if (reason === "protocol") return this.#outdated();
    this.#sessionState = "replaced";
    this.#changed(this.diagnostics.rest());
    this.#socket.restart();
  }

  /** @param {import("../types.js").Welcome} message */
  #welcomed(message) {
    if (message.protocol !== PROTOCOL_VERSION) return this.#outdated();
    this.events.tell("connection.made", { trains: this.#train });
    if (this.#train) this.#session = message.session;
    if (this.#sessionState !== "replaced") this.#sessionState = "connected";
    this.diagnostics.sequence = Math.max(this.diagnostics.sequence, message.sequence);
    if (this.#state?.job) this.#toServer.call();
    // Chosen between hello and welcome, when nothing could be sent.
    if (this.#watch !== this.#watched) this.watch(this.#watch);
    // What changed while the socket was down was told to nobody.
    if (this.#watch) this.#options.delegate.hint(this.#watch, ["everything"]);
  }

  #outdated() {
    this.#end("outdated", "The server was updated. Reload this page.");
  }

  /** Nothing more can come of this page's connection. @param {"signedOut" | "outdated"} sessionState @param {string} message */
  #end(sessionState, message) {
    this.#sessionState = sessionState;
    this.#error = message;
    this.#state = null;
    this.#socket.stop();
    this.#poller.stop();
    this.#changed(this.diagnostics.rest());
    this.#toPage.call();
  }

  /** @param {string} reason */
  #endWork(reason) {
    this.#assignments.drop(reason);
    this.#preparation.abort();
    this.#readiness.stop();
    this.pool.terminate();
  }

  /** A machine that slept asks before it does anything. @param {number} gapMs */
  #woke(gapMs) {
    this.events.tell("device.woke", { gapMs: Math.round(gapMs) });
    if (gapMs > POLL_SECONDS * 1000) this.#socket.restart();
    void this.#poller.poll();
    this.#toServer.call();
  }

  // What follows from a state.

  /** @param {PeerState} state */
  #apply(state) {
    this.contact.heard();
    this.#poller.stateCame();
    this.#state = state;
    this.#error = null;
    if (this.#train) this.#follow(state);
    this.#toPage.call();
  }

  /** @param {PeerState} state */
  #follow({ job, assignment }) {
    if (job) this.diagnostics.enterJob(job);
    if (job?.trains) this.#probeGpu();
    if (!job) this.#preparation.abort();
    if (!job || job.pausedByPeer || job.pausedByCoordinator) {
      this.#assignments.drop(job ? "The contribution is paused." : "The job has ended for this device.");
      return this.#rest(null);
    }
    if (job.trains && !job.ready) this.#preparation.start(job);
    if (job.trains && job.ready) this.#readiness.renew(job);
    if (assignment && this.#assignments.knows(assignment)) return;
    this.#assignments.drop("The server gave this work to somebody else or took it back.");
    if (assignment) this.#assignments.begin(job, assignment);
    else this.#rest(job);
  }

  /** No assignment now: waiting, unless the last one's merge is awaited or its error is shown. @param {import("../types.js").PeerJob | null} job */
  #rest(job) {
    const { stage } = this.diagnostics.clock;
    const merging = job !== null && job.status !== "completed" && job.round === this.diagnostics.assignment?.round;
    const awaited = stage === "awaitingAggregation" && merging;
    if (awaited || stage === "error" || this.#preparation.running) return;
    this.#changed(this.diagnostics.rest());
  }

  // What is told of it.

  /** Once, and beside the work. */
  #probeGpu() {
    const { gpu } = this.#options;
    if (!gpu || this.#probed) return;
    this.#probed = true;
    void probeGpu(gpu).then((facts) => {
      this.diagnostics.gpu = facts;
      this.#changed(true);
    });
  }

  /** @param {boolean} changed */
  #changed(changed) {
    if (!changed) return;
    this.events.stage(this.diagnostics.clock);
    this.#toServer.call();
    this.#toPage.call();
  }

  /** @param {string} message */
  #fail(message) {
    this.events.tell("error", { message });
    this.diagnostics.fail(message);
    this.#changed(true);
  }

  /** A page that only watches, and a tab beside the one that trains, have nothing to say of what this peer does. */
  #tells() {
    return this.#train && (this.#state?.job?.trains ?? false);
  }

  #sendSnapshot() {
    if (!this.#tells()) return;
    this.diagnostics.activeWorkers = this.pool.active;
    this.#socket.send({ type: Client.diagnostics, snapshot: this.diagnostics.take() });
  }
}
