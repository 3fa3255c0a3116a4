/** Brings what the server says of a watched job into this browser's debug log. */
import { Throttle } from "../training/throttle.js";

/** Fast rounds tell several times a second. */
const GAP_MS = 2_000;

export class ServerEvents {
  /** @type {string | null} */ #jobId = null;
  #log;
  #http;
  #throttle = new Throttle(() => void this.#look(), GAP_MS);

  /** @param {{log: import("./debug-log.js").DebugLog, http: Pick<import("../net/http.js").Http, "json">}} options */
  constructor({ log, http }) {
    this.#log = log;
    this.#http = http;
  }

  /** Something happened to a job that this page watches. @param {string} jobId @param {string[]} what */
  hint(jobId, what) {
    if (!what.includes("events") && !what.includes("everything")) return;
    this.#jobId = jobId;
    this.#throttle.call();
  }

  async #look() {
    const jobId = /** @type {string} */ (this.#jobId);
    // From the oldest that is remembered: of events that were written at the same time, a later one may come to sight first.
    const [after] = this.#log.seen(jobId);
    const query = after === undefined ? "" : `?after=${after}`;
    try {
      this.#log.takeOver(jobId, await this.#http.json("GET", `/api/v1/jobs/${jobId}/log${query}`));
    } catch {
      // The next hint looks again.
    }
  }
}
