/**
 * One per page: socket, heartbeat, poll, IndexedDB, hashing, transfers and timers live here, where a hidden tab does not slow them down.
 * It never trains; it spawns the Worker that does.
 */
import { FileUploads } from "./jobs/uploads.js";
import { Http } from "./net/http.js";
import { FromControl, ToControl } from "./protocol.js";
import { spawnModule } from "./spawn.js";
import { ArtifactStore } from "./store/artifacts.js";
import { describeEnvironment } from "./training/environment.js";
import { TrainingSession } from "./training/session.js";
import { Throttle } from "./training/throttle.js";

const UPLOAD_GAP_MS = 100;

/** @type {TrainingSession | null} */
let session = null;
/** @type {AbortController | null} */
let uploading = null;

/** @param {string} type @param {Record<string, unknown>} body */
const post = (type, body) => self.postMessage({ type, ...body });

const spawn = () => spawnModule(new URL("./train-worker.js", import.meta.url), "weei-training");

/** @returns {TrainingSession} */
function current() {
  if (!session) throw new Error("This browser is not a participant yet. Open an invitation or a job first.");
  return session;
}

/** What a page may call, by name. @type {Record<string, (args: any) => unknown>} */
const METHODS = {
  /** @param {Pick<import("./training/session.js").SessionOptions, "base" | "peer" | "user" | "train" | "watch" | "preferences">} options */
  connect(options) {
    session?.stop();
    session = new TrainingSession({
      ...options,
      environment: describeEnvironment(self.navigator),
      gpu: /** @type {{gpu?: import("./training/gpu.js").Gpu}} */ (self.navigator).gpu,
      store: new ArtifactStore(),
      spawn,
      delegate: {
        changed: (state) => post(FromControl.state, { state }),
        hint: (jobId, what) => post(FromControl.hint, { jobId, what }),
        live: (jobId, peers) => post(FromControl.live, { jobId, peers }),
        log: (event, details, at) => post(FromControl.log, { event, details, at }),
      },
    });
    session.start();
  },

  disconnect() {
    session?.stop();
    session = null;
  },

  /** @returns {boolean} whether there is a session that goes on */
  user({ user }) {
    session?.setUser(user);
    return session !== null;
  },

  watch: ({ jobId }) => current().watch(jobId),
  trainHere: () => current().trainHere(),
  preferences: ({ preferences }) => session?.setPreferences(preferences),
  setPaused: ({ paused }) => current().setPaused(paused),
  leave: () => current().leave(),
  decide: ({ jobId, accepted }) => current().command("/api/v1/invitations/decide", { jobId, accepted }),
  poll: () => current().poll(),

  /** What this browser keeps, and how much its browser lets the site keep. */
  async storage() {
    const kept = await new ArtifactStore().inventory();
    const { quota = null, usage = null } = (await navigator.storage?.estimate()) ?? {};
    return { ...kept, quotaBytes: quota, usedBytes: usage };
  },

  /** @param {{base: string, headers: Record<string, string>, files: File[]}} args */
  async upload({ base, headers, files }) {
    uploading?.abort(new Error("Another upload was started."));
    const abort = new AbortController();
    uploading = abort;
    const tell = new Throttle(() => post(FromControl.upload, { files: uploads.progress }), UPLOAD_GAP_MS);
    const uploads = new FileUploads(files, {
      http: new Http({ base, headers: () => headers }),
      changed: () => tell.call(),
      signal: abort.signal,
    });
    try {
      tell.call();
      return await uploads.run();
    } catch (error) {
      // One file that cannot be sent ends the job's creation: the others need not be sent.
      abort.abort(error);
      throw error;
    } finally {
      tell.stop();
      post(FromControl.upload, { files: uploads.progress });
    }
  },
};

/** @param {number} id @param {string} method @param {unknown} args */
async function answer(id, method, args) {
  try {
    const action = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined;
    if (!action) throw new Error(`${method} is not a method of the control Worker.`);
    const result = await action(args);
    // Before the answer, so that a page that waited for its command sees what it did.
    if (session) post(FromControl.state, { state: session.state() });
    post(FromControl.answer, { id, result });
  } catch (error) {
    const { message, code, field, body } = /** @type {import("./net/http.js").Problem} */ (error);
    post(FromControl.answer, { id, error: { message: message || String(error), code, field, body } });
  }
}

self.onmessage = ({ data }) => {
  if (data.type === ToControl.call) void answer(data.id, data.method, data.args ?? {});
};
