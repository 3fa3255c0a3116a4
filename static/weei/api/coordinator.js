/** What the coordinator of a job may do, as calls of the server's HTTP API (docs/protocol.md). */
import { pause } from "../net/backoff.js";
import { download } from "../net/download.js";
import { failureOfResponse, retry } from "../net/http.js";

const DRAFT_POLL_MS = 500;

/** @typedef {import("../net/http.js").Http} Http */
/** @typedef {import("../jobs/uploads.js").UploadedFile} UploadedFile */
/**
 * Files of a new job, resolved. @typedef {{name?: string, wasm: File, manifest: File, files: File[], settings: object, validation?: File,
 *   executionFiles?: File[], checkpoint?: File, datasetMode?: "new" | "resume"}} JobFiles
 */

/**
 * Every argument that takes a File takes a Promise of one too.
 * @param {Record<string, any>} given @returns {Promise<JobFiles>}
 */
export async function resolveFiles(given) {
  const { wasm, manifest, files = [], validation, executionFiles, checkpoint, ...rest } = given;
  const [module, list, check, start] = await Promise.all([wasm, manifest, validation, checkpoint]);
  if (!module) throw new Error("wasm: choose the model's module file.");
  if (!list) throw new Error("manifest: choose the dataset manifest or the package's manifest.json.");
  const chunks = await Promise.all(await files);
  const execution = await Promise.all((await executionFiles) ?? []);
  const named = { wasm: module, manifest: list, validation: check, checkpoint: start };
  for (const [name, file] of Object.entries(named)) checkFile(name, file ?? null);
  for (const [index, file] of chunks.entries()) checkFile(`files[${index}]`, file);
  for (const [index, file] of execution.entries()) checkFile(`executionFiles[${index}]`, file);
  return /** @type {JobFiles} */ ({ ...rest, ...named, files: chunks, executionFiles: execution });
}

/** By its tag, because a File of another frame has another class. @param {string} name @param {unknown} value null: not given */
function checkFile(name, value) {
  if (value !== null && Object.prototype.toString.call(value) !== "[object File]") throw new Error(`${name} must be a File; found ${JSON.stringify(value) ?? typeof value}.`);
}

/** The order of the upload list. @param {JobFiles} of @returns {File[]} */
export function filesOf({ wasm, manifest, files, validation, executionFiles, checkpoint }) {
  const extra = [...(validation ? [validation] : []), ...(executionFiles ?? []), ...(checkpoint ? [checkpoint] : [])];
  return [wasm, manifest, ...files, ...extra];
}

/** @param {JobFiles} of @param {UploadedFile[]} uploaded in the order of `filesOf` */
export function jobBody({ name, files, settings, validation, executionFiles, checkpoint, datasetMode }, uploaded) {
  const left = [...uploaded];
  const take = (/** @type {number} */ count) => left.splice(0, count);
  const [module, manifest] = take(2);
  const chunks = take(files.length);
  const [check] = take(validation ? 1 : 0);
  const execution = take(executionFiles?.length ?? 0);
  const [start] = take(checkpoint ? 1 : 0);
  return {
    ...(name ? { name } : {}),
    module,
    manifest,
    files: chunks,
    ...(check ? { validation: check } : {}),
    ...(execution.length ? { executionFiles: execution } : {}),
    settings,
    ...(start ? { checkpoint: start } : {}),
    ...(datasetMode ? { datasetMode } : {}),
  };
}

export class Coordinator {
  #http;

  /** @param {Http} http of the page: session cookie, CSRF token and, where there is one, the peer's token */
  constructor(http) {
    this.#http = http;
  }

  /** @param {object} body @param {(draft: import("../types.js").DraftState) => void} onDraft @returns {Promise<string>} the new job's id */
  async create(body, onDraft) {
    const { draftId } = await this.#http.json("POST", "/api/v1/jobs", body);
    for (;;) {
      const draft = await this.#http.retried("GET", `/api/v1/drafts/${draftId}`);
      onDraft(draft);
      if (draft.state === "done") return draft.jobId;
      if (draft.state === "failed") throw new Error(draft.error || "The job could not be created, and the server gave no reason.");
      await pause(DRAFT_POLL_MS);
    }
  }

  async saved() {
    return (await this.#http.pages("/api/v1/jobs?limit=500")).flat();
  }

  /** What the server keeps for this person. */
  storage() {
    return this.#http.json("GET", "/api/v1/storage");
  }

  /** @param {string} id */
  delete(id) {
    return this.#http.json("DELETE", `/api/v1/jobs/${id}`);
  }

  /**
   * A command that answers the job as it is after it.
   * @param {string} id @param {string} command @param {object} [body] @param {string} [method]
   */
  command(id, command, body = {}, method = "POST") {
    return this.#http.json(method, `/api/v1/jobs/${id}/${command}`, body);
  }

  /** The whole list. @param {string} id @param {string} path */
  async list(id, path) {
    return (await this.#http.pages(`/api/v1/jobs/${id}/${path}?limit=500`)).flat();
  }

  /** @param {string} id @param {string} path */
  read(id, path) {
    return this.#http.json("GET", `/api/v1/jobs/${id}/${path}`);
  }

  /** @param {string} id @param {string} name of the job @param {number} round @returns {Promise<File>} */
  async exportCheckpoint(id, name, round) {
    const blob = await retry(async () => {
      const response = await this.#http.request(`/bytes/jobs/${id}/checkpoints/${round}`, { headers: this.#http.headers() });
      if (!response.ok) throw await failureOfResponse(response);
      return response.blob();
    });
    return new File([blob], `${safeName(name)}-round-${round}.weei-checkpoint`, { type: "application/octet-stream" });
  }

  /** @param {string} id @param {{fileName: string, bytes: number, sha256: string}} module @returns {Promise<File>} */
  async exportModule(id, module) {
    const blob = await download(this.#http, `/bytes/jobs/${id}/${module.sha256}`, module);
    return new File([blob], module.fileName, { type: "application/wasm" });
  }
}

/** @param {string} name */
function safeName(name) {
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 80) || "job";
}
