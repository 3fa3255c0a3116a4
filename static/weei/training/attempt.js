/** One attempt at one assignment: receive, prepare, train, upload. Whoever aborts its signal ends it at once. */
import { sha256 } from "../hash.js";
import { Problem } from "../net/http.js";
import { upload } from "../net/upload.js";
import { mergeRanges, worksOf } from "./ranges.js";
import { checkAllFilled } from "./slots.js";

/** @typedef {import("../types.js").Assignment} Assignment */
/**
 * How it ended. `failed`: the server must be told; `refused`: the server has failed it; `stale`: it was over already.
 * @typedef {{kind: "received" | "stale" | "aborted" | "unauthorized"} | {kind: "failed" | "refused", reason: string}} Outcome
 */

const REFUSED = new Set(["wrong_size", "non_finite", "invalid_report"]);

/** @param {string} text base64 */
function decodeBase64(text) {
  return new Blob([Uint8Array.from(atob(text), (char) => char.charCodeAt(0))]);
}

export class Attempt {
  #abort = new AbortController();
  #context;
  /** All bytes of the update have left: only the server's answer is missing. */
  sent = false;

  /**
   * @param {Assignment} assignment
   * @param {{job: import("../types.js").PeerJob, artifacts: import("./artifacts.js").JobArtifacts, pool: import("./pool.js").WorkerPool,
   *   http: import("../net/http.js").Http, transfers: import("./transfers.js").TransferLog, events: import("./events.js").DeviceEvents,
   *   peerId: string, now: () => number,
   *   confirm: (attempt: Attempt) => Promise<void>, enter: (stage: import("../types.js").Stage) => void,
   *   time: (stage: import("../types.js").Stage | null) => void,
   *   progress: (report: import("../types.js").TrainReport) => void, model: (info: {id: string, version: string}) => void,
   *   httpStack?: unknown}} context
   */
  constructor(assignment, context) {
    this.assignment = assignment;
    this.#context = context;
    this.deadline = context.now() + assignment.secondsLeft * 1000;
  }

  get id() {
    return this.assignment.attemptId;
  }

  /** @param {string} reason */
  abort(reason) {
    this.#abort.abort(new DOMException(reason, "AbortError"));
  }

  /** @returns {Promise<Outcome>} */
  async run() {
    try {
      const inputs = await this.#receive();
      await this.#context.confirm(this);
      this.#abort.signal.throwIfAborted();
      await this.#upload(await this.#train(inputs));
      return { kind: "received" };
    } catch (error) {
      return this.#outcome(error);
    }
  }

  /** Snapshots come right before the weights of their round. */
  async #receive() {
    const { artifacts, job, enter } = this.#context;
    const { assignment } = this;
    const { signal } = this.#abort;
    enter("receiving");
    const wanted = { ...job.module, sha256: assignment.moduleSha256 };
    const module = await artifacts.module(job.id, wanted, signal, () => enter("preparing"));
    enter("receiving");
    const data = assignment.data ? await artifacts.fetch(job.id, assignment.data, { signal }) : undefined;
    const auxiliary = await this.#auxiliary(module);
    return { module, data, auxiliary, weights: await this.#weights() };
  }

  /** @param {WebAssembly.Module} module */
  async #auxiliary(module) {
    const { artifacts, pool, job, enter } = this.#context;
    const { jobId, auxiliary } = this.assignment;
    const { signal } = this.#abort;
    if (!auxiliary.length) return [];
    const info = await pool.inspect(module, { stallMinutes: job.stallMinutes, signal, onStage: enter });
    enter("receiving");
    checkAllFilled(auxiliary, info.auxiliaryWeights ?? []);
    return artifacts.auxiliary(jobId, auxiliary, info, signal);
  }

  async #weights() {
    const { weights, jobId } = this.assignment;
    if (weights.inline !== undefined) {
      const blob = decodeBase64(weights.inline);
      if (blob.size === weights.bytes && (await sha256(blob)) === weights.sha256) return blob;
    }
    return this.#context.artifacts.fetch(jobId, weights, { signal: this.#abort.signal, keep: false });
  }

  /** @param {import("./pool.js").Inputs} inputs */
  async #train(inputs) {
    const { pool, job, enter, time, progress, model } = this.#context;
    const { signal } = this.#abort;
    enter("preparing");
    const ranges = await pool.train(inputs, await worksOf(this.assignment), {
      stallMinutes: job.stallMinutes,
      signal,
      // Shown as training until the update is sent, also while a Worker prepares its next range.
      onStage: (stage) => (stage === "training" ? enter(stage) : time(stage)),
      onProgress: progress,
    });
    time(null);
    const trained = await mergeRanges(inputs.weights, ranges, signal);
    const { examplesProcessed, optimizerSteps, metrics } = trained.result;
    progress({ processedExamples: examplesProcessed, metrics, ...(optimizerSteps === undefined ? {} : { optimizerSteps }) });
    model(trained.info);
    return trained;
  }

  /** @param {import("./runner.js").Trained} trained */
  async #upload({ weights, result }) {
    const { http, transfers, events, peerId, enter, httpStack } = this.#context;
    const { attemptId, jobId, round } = this.assignment;
    const { examplesProcessed, uniqueExamples, metrics, optimizerSteps } = result;
    const { signal } = this.#abort;
    const digest = await sha256(weights, { signal });
    enter("uploading");
    const transfer = transfers.begin({ jobId, peerId, artifactId: digest, direction: "send", totalBytes: weights.size });
    const report = JSON.stringify({ round, examplesProcessed, uniqueExamples, metrics, optimizerSteps });
    const uploaded = events.began("transfer");
    try {
      await upload(weights, this.assignment.weights.bytes, {
        endpoint: http.url("/bytes/uploads"),
        headers: http.headers(),
        metadata: { kind: "update", attempt: attemptId, sha256: digest, report },
        signal,
        httpStack,
        onProgress: (bytes) => {
          this.sent = bytes >= weights.size;
          transfer.progress(bytes);
        },
      });
      uploaded({ jobId, round, direction: "send", bytes: weights.size });
    } finally {
      transfer.end();
    }
  }

  /** @param {unknown} error @returns {Outcome} */
  #outcome(error) {
    if (this.#abort.signal.aborted) return { kind: "aborted" };
    if (error instanceof Problem) {
      if (error.code === "stale_attempt") return { kind: "stale" };
      // The server kept what it got first from this attempt: nothing is left to do.
      if (error.code === "already_received") return { kind: "received" };
      if (error.code === "unauthorized") return { kind: "unauthorized" };
      if (REFUSED.has(error.code)) return { kind: "refused", reason: error.message };
    }
    return { kind: "failed", reason: error instanceof Error && error.message ? error.message : `The assignment failed: ${String(error)}.` };
  }
}
