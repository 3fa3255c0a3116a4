/** The one attempt that this device works on, from the state that names it to its receipt or its end. */
import { Attempt } from "./attempt.js";

const REMEMBERED_ATTEMPTS = 50;

/** @typedef {import("../types.js").Assignment} Assignment */
/** @typedef {import("../types.js").PeerJob} PeerJob */
/**
 * @typedef {{artifacts: import("./artifacts.js").JobArtifacts, pool: import("./pool.js").WorkerPool, http: import("../net/http.js").Http,
 *   transfers: import("./transfers.js").TransferLog, contact: import("./contact.js").Contact, diagnostics: import("./snapshot.js").Diagnostics,
 *   events: import("./events.js").DeviceEvents, peerId: string, now: () => number, httpStack?: unknown, enter(stage: import("../types.js").Stage): void, failed(message: string): void,
 *   changed(): void, named(wasmSha256: string, info: {id: string, version: string}): void, poll(): Promise<void>,
 *   apply(state: import("../types.js").PeerState): void, unauthorized(): void}} AssignmentsContext
 */

export class Assignments {
  /** @type {Attempt | null} */ #attempt = null;
  /** @type {Set<string>} attempts that are over for this device, whatever an older message says */ #over = new Set();
  #context;

  /** @param {AssignmentsContext} context */
  constructor(context) {
    this.#context = context;
  }

  /** The attempt that a `hello` names, so that the server leaves it here. */
  get heldId() {
    return this.#attempt?.id;
  }

  /** @param {Assignment} assignment */
  knows({ attemptId }) {
    return this.#over.has(attemptId) || attemptId === this.#attempt?.id;
  }

  /** @param {PeerJob} job @param {Assignment} assignment */
  begin(job, assignment) {
    const { enter, changed, named, diagnostics, ...context } = this.#context;
    const attempt = new Attempt(assignment, {
      ...context,
      job,
      confirm: (current) => this.#confirm(current),
      enter: (stage) => this.#attempt === attempt && enter(stage),
      time: (stage) => this.#attempt === attempt && diagnostics.clock.time(stage),
      progress: (report) => {
        diagnostics.progress(report);
        changed();
      },
      model: (info) => named(assignment.moduleSha256, info),
    });
    this.#attempt = attempt;
    diagnostics.begin(assignment);
    this.#tell("assignment.received", assignment, { chunkId: assignment.chunkId, exampleCount: assignment.exampleCount });
    void attempt.run().then((outcome) => this.#ended(attempt, outcome));
  }

  /** End the running work at once. An update whose bytes have all left is not called back. @param {string} reason */
  drop(reason) {
    const attempt = this.#attempt;
    if (!attempt) return;
    this.#attempt = null;
    if (attempt.sent) {
      this.#remember(attempt.id);
      return void this.#context.enter("awaitingAggregation");
    }
    this.#tell("assignment.dropped", attempt.assignment, { reason });
    attempt.abort(reason);
  }

  /** Before time is spent on work that may be somebody else's by now (C30). @param {Attempt} attempt */
  async #confirm(attempt) {
    const { contact, now, poll } = this.#context;
    while (this.#attempt === attempt && (contact.leaseMayHaveEnded() || now() >= attempt.deadline)) {
      await poll();
      if (!contact.leaseMayHaveEnded()) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  /** @param {Attempt} attempt @param {import("./attempt.js").Outcome} outcome */
  #ended(attempt, outcome) {
    const { enter, failed, poll, unauthorized } = this.#context;
    if (outcome.kind !== "aborted") this.#remember(attempt.id);
    if (outcome.kind === "received") this.#tell("assignment.uploaded", attempt.assignment);
    if (outcome.kind === "stale") this.#tell("assignment.dropped", attempt.assignment, { reason: "The server says that it is over." });
    if (this.#attempt !== attempt) return;
    this.#attempt = null;
    if (outcome.kind === "received") return void enter("awaitingAggregation");
    if (outcome.kind === "unauthorized") return unauthorized();
    if (outcome.kind === "failed" || outcome.kind === "refused") failed(outcome.reason);
    else enter("waiting");
    if (outcome.kind === "failed") void this.#report(attempt.id, outcome.reason);
    else void poll();
  }

  /** @param {string} event @param {Assignment} assignment @param {Record<string, unknown>} [details] */
  #tell(event, { jobId, round, attemptId }, details = {}) {
    this.#context.events.tell(event, { jobId, round, attemptId, ...details });
  }

  /** @param {string} attemptId @param {string} reason */
  async #report(attemptId, reason) {
    const { http, apply, poll } = this.#context;
    try {
      apply(await http.retried("POST", `/api/v1/peer/attempts/${attemptId}/failed`, { reason: reason.slice(0, 500) }));
    } catch {
      // The attempt was over before its failure could be told: what holds now comes with the state.
      void poll();
    }
  }

  /** @param {string} attemptId */
  #remember(attemptId) {
    this.#over.add(attemptId);
    const [oldest] = this.#over;
    if (oldest && this.#over.size > REMEMBERED_ATTEMPTS) this.#over.delete(oldest);
  }
}
