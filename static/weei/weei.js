/**
 * The browser's door to Weei: `await window.weeiReady`, or `await loadWeei()`. The one place where the page's parts are wired together.
 */
import { ControlClient } from "./api/control-client.js";
import { DebugLog } from "./api/debug-log.js";
import { DiagnosticsBoard } from "./api/diagnostics.js";
import { HostPolicy } from "./api/host-policy.js";
import { csrfHeaders, meta, PageHints, WakeLock } from "./api/page.js";
import { PeerIdentity } from "./api/peer.js";
import { ServerEvents } from "./api/server-events.js";
import { Site } from "./api/site.js";
import { StateStore } from "./api/state.js";
import { DeviceStorage, PREFERENCES } from "./api/storage.js";
import { TrainingApi } from "./api/training.js";
import { Widgets } from "./api/widgets.js";
import { Http } from "./net/http.js";
import { FromControl } from "./protocol.js";
import { spawnModule } from "./spawn.js";
import { logicalCores } from "./training/workers.js";

const REFRESH_MS = 15_000;

/** Reading `localStorage` throws where a browser forbids it. @returns {Storage | undefined} */
function localStorageOrNone() {
  try {
    return window.localStorage;
  } catch {
    return undefined;
  }
}

/** @param {{state: StateStore, training: TrainingApi, identity: PeerIdentity, control: ControlClient, http: Http, log: DebugLog}} parts */
function controlListener({ state, training: api, identity, control, http, log }) {
  const serverEvents = new ServerEvents({ log, http });
  const hints = new PageHints();
  const lock = new WakeLock();
  /** @type {Record<string, (message: any) => void>} */
  const handlers = {
    [FromControl.state]({ state: next }) {
      const { participation, snapshot, peerId, peerJob, sessionState, activeWorkers } = next;
      state.control = next;
      if (snapshot) state.diagnostics.receive(peerId, { snapshot, connected: participation.connected });
      lock.want(activeWorkers > 0);
      void api.learnInvitations(next.invitations).catch(() => {});
      api.followPeer(peerJob);
      if (sessionState === "signedOut") {
        identity.forget();
        void control.call("disconnect");
      }
    },
    [FromControl.hint]({ jobId, what }) {
      hints.hint(jobId, what);
      serverEvents.hint(jobId, what);
      void api.refresh().catch(() => {});
    },
    [FromControl.live]({ peers }) {
      for (const [peerId, update] of Object.entries(peers)) state.diagnostics.receive(peerId, /** @type {object} */ (update));
    },
    [FromControl.upload]({ files }) {
      state.upload = files;
    },
    died({ message }) {
      log.record("error", { message });
      state.error = message;
    },
  };
  return (/** @type {{type: string} & Record<string, any>} */ message) => {
    if (message.type === FromControl.log) return log.record(message.event, message.details, message.at);
    handlers[message.type]?.(message);
    state.changed();
  };
}

/** @returns {Promise<import("./weei.js").Weei>} */
async function build() {
  const base = new URL(import.meta.url).origin;
  const storage = new DeviceStorage(localStorageOrNone());
  const log = new DebugLog({ storage: localStorageOrNone() });
  const cores = logicalCores(navigator);
  const state = new StateStore({ diagnostics: new DiagnosticsBoard(), preferences: storage.preferences(cores), cores });
  const spawn = () => spawnModule(new URL("./control-worker.js", import.meta.url), "weei-control");
  /** @type {(message: any) => void} */
  let listener = () => {};
  const control = new ControlClient(spawn, (message) => listener(message));
  const http = new Http({ base, headers: () => ({ ...csrfHeaders(base), ...identity.headers() }) });
  const watch = meta("weei-watch");
  const connect = (/** @type {{peerId: string, token: string}} */ peer) =>
    control.call("connect", { base, peer, user: storage.user(), train: meta("weei-train") !== "off", watch, preferences: state.preferences });
  const identity = new PeerIdentity({ storage, http, connect });
  const site = new Site({ http, storage, policy: new HostPolicy(base, document), page: window, tryWorker: () => control.call("disconnect") });
  await site.learn();
  const training = new TrainingApi({ state, control, http, identity, storage, log });
  listener = controlListener({ state, training, identity, control, http, log });
  const peer = identity.known();
  if (peer && site.training) void connect(peer);
  if (watch && site.training) void training.watch(watch).catch((error) => reportError(error));
  setInterval(() => training.refreshIfChanging(), REFRESH_MS);
  window.addEventListener("storage", ({ key }) => {
    if (key === PREFERENCES) training.takePreferences();
  });
  /** The running session goes on as the other person, or as nobody. @param {() => Promise<void>} change */
  const changeUser = async (change) => {
    await change();
    const running = await control.call("user", { user: storage.user() });
    const known = identity.known();
    if (!running && known && site.training) await connect(known);
    await training.userChanged();
  };
  const widgets = new Widgets({ training, site, base });
  return Object.freeze({
    widgetsApi: Object.freeze({
      get: (/** @type {string} */ id) => widgets.get(id),
      enable: (/** @type {string} */ id) => widgets.enable(id),
    }),
    setVisibility: (/** @type {boolean} */ visible) => widgets.setVisibility(visible),
    get reason() {
      return site.reason;
    },
    get user() {
      return site.user;
    },
    signIn: () => changeUser(() => site.signIn()),
    signOut: () => changeUser(() => site.signOut()),
  });
}

/** @type {Promise<import("./weei.js").Weei> | null} */
let loading = null;

/** The same object for every caller. One that the server did not answer is built anew by the next call. @returns {Promise<import("./weei.js").Weei>} */
export function loadWeei() {
  loading ??= Promise.resolve()
    .then(build)
    .catch((error) => {
      loading = null;
      throw error;
    });
  return loading;
}

Object.assign(window, { loadWeei, weeiReady: loadWeei() });
