/**
 * The browser's door to Weei: `await window.weeiReady`, or `await loadWeei()`. The one place where the page's parts are wired together.
 */
import { ControlClient } from "./api/control-client.js";
import { DiagnosticsBoard } from "./api/diagnostics.js";
import { csrfToken, meta, PageHints, WakeLock } from "./api/page.js";
import { PeerIdentity } from "./api/peer.js";
import { StateStore } from "./api/state.js";
import { DeviceStorage, PREFERENCES } from "./api/storage.js";
import { TrainingApi } from "./api/training.js";
import { Widgets } from "./api/widgets.js";
import { Http } from "./net/http.js";
import { FromControl } from "./protocol.js";
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

/** @param {StateStore} state @param {TrainingApi} api @param {PeerIdentity} identity @param {ControlClient} control */
function controlListener(state, api, identity, control) {
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
      void api.refresh().catch(() => {});
    },
    [FromControl.live]({ peers }) {
      for (const [peerId, update] of Object.entries(peers)) state.diagnostics.receive(peerId, /** @type {object} */ (update));
    },
    [FromControl.upload]({ files }) {
      state.upload = files;
    },
    died({ message }) {
      state.error = message;
    },
  };
  return (/** @type {{type: string}} */ message) => {
    handlers[message.type]?.(message);
    state.changed();
  };
}

/** @returns {Promise<import("./weei.js").Weei>} */
async function build() {
  const base = new URL(import.meta.url).origin;
  const storage = new DeviceStorage(localStorageOrNone());
  const cores = logicalCores(navigator);
  const state = new StateStore({ diagnostics: new DiagnosticsBoard(), preferences: storage.preferences(cores), cores });
  const spawn = () => new Worker(new URL("./control-worker.js", import.meta.url), { type: "module", name: "weei-control" });
  /** @type {(message: any) => void} */
  let listener = () => {};
  const control = new ControlClient(spawn, (message) => listener(message));
  const http = new Http({ base, headers: () => ({ "X-CSRFToken": csrfToken(), ...identity.headers() }) });
  const watch = meta("weei-watch");
  const connect = (/** @type {{peerId: string, token: string}} */ peer) =>
    control.call("connect", { base, peer, train: meta("weei-train") !== "off", watch, preferences: state.preferences });
  const identity = new PeerIdentity({ storage, http, connect });
  const training = new TrainingApi({ state, control, http, identity, storage });
  listener = controlListener(state, training, identity, control);
  const peer = identity.known();
  if (peer) void connect(peer);
  if (watch) void training.watch(watch).catch((error) => reportError(error));
  setInterval(() => training.refreshIfChanging(), REFRESH_MS);
  window.addEventListener("storage", ({ key }) => {
    if (key === PREFERENCES) training.takePreferences();
  });
  const widgets = new Widgets({ training, site: { training: true, reason: null }, base });
  return Object.freeze({
    widgetsApi: Object.freeze({
      get: (/** @type {string} */ id) => widgets.get(id),
      enable: (/** @type {string} */ id) => widgets.enable(id),
    }),
    setVisibility: (/** @type {boolean} */ visible) => widgets.setVisibility(visible),
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
