/** A training session whose server, Worker and clock are the test's. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import { TrainingSession } from "../../static/weei/training/session.js";
import { FakeClock, FakeSocket, FakeTus } from "./fakes.js";

const golden = JSON.parse(readFileSync(new URL("../golden/messages.json", import.meta.url), "utf8"));
const MODULE = new Uint8Array(readFileSync(new URL("../hosts/modules/binaries/plus_one.wasm", import.meta.url)));
export const WEIGHTS = new Uint8Array(new Float32Array([1, -2, 0.5, 0]).buffer);
export const DATA = new TextEncoder().encode("eleven data");
const digest = (/** @type {Uint8Array} */ bytes) => createHash("sha256").update(bytes).digest("hex");
export const ref = (/** @type {Uint8Array} */ bytes) => ({ sha256: digest(bytes), bytes: bytes.length });

export const JOB = { ...golden.server[1].job, module: { fileName: "plus_one.wasm", ...ref(MODULE) } };
const base64 = (/** @type {Uint8Array} */ bytes) => Buffer.from(bytes).toString("base64");

/** @param {object} [change] */
export const assignment = (change = {}) => ({
  ...golden.server[1].assignment,
  moduleSha256: JOB.module.sha256,
  weights: { ...ref(WEIGHTS), inline: base64(WEIGHTS) },
  data: { ...ref(DATA), format: "bytes" },
  ...change,
});

/** A Worker that does what the test says, when it says so. */
class FakeWorker {
  /** @type {any[]} */ received = [];
  terminated = false;
  /** @type {any} */ onmessage = null;
  /** @type {any} */ onerror = null;
  /** @type {any} */ onmessageerror = null;

  /** @param {any} message */
  postMessage(message) {
    this.received.push(message);
    if (message.type === "inspect") this.says("result", { info: { id: "plus-one", version: "1.0.0", name: "Plus one" } });
  }

  terminate() {
    this.terminated = true;
  }

  /** @param {string} type @param {object} [body] */
  says(type, body = {}) {
    const { id } = this.received.at(-1);
    setImmediate(() => this.onmessage?.({ data: { type, id, ...body } }));
  }

  finish() {
    const result = { weights: { pointer: 0, bytes: 16 }, metrics: { loss: 0.5 }, examplesProcessed: 22, uniqueExamples: 11 };
    this.says("result", { weights: new Blob([WEIGHTS]), result, info: { id: "plus-one", version: "1.0.0" } });
  }
}

/**
 * @param {{train?: boolean, tus?: FakeTus, cores?: number | "unknown", maxLocalWorkers?: number,
 *   spawn?: () => import("../../static/weei/training/runner.js").WorkerLike, gpu?: import("../../static/weei/training/gpu.js").Gpu}} [options]
 *   `spawn`: instead of Workers that the test speaks for
 */
export function world({ train = true, tus = new FakeTus(), cores = 2, maxLocalWorkers = 2, spawn, gpu } = {}) {
  const clock = new FakeClock();
  /** @type {FakeWorker[]} */
  const workers = [];
  /** @type {{method: string, path: string, body: any}[]} */
  const calls = [];
  /** @type {Record<string, (body: any) => unknown>} answers by path; a Response passes as it is */
  const answers = {};
  /** @type {Map<string, Uint8Array<ArrayBuffer>>} */
  const bytes = new Map([MODULE, WEIGHTS, DATA].map((data) => [digest(data), data]));
  /** @type {[string, string[]][]} */
  const hints = [];
  /** @type {{event: string, details: Record<string, any>, at: number}[]} */
  const logged = [];
  /** @type {typeof globalThis.fetch} */
  const answer = async (url, init) => {
    const { pathname } = new URL(String(url));
    const body = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
    calls.push({ method: init?.method ?? "GET", path: pathname, body });
    const make = answers[pathname];
    if (make) {
      const value = await make(body);
      return value instanceof Response ? value : Response.json(value);
    }
    const artifact = bytes.get(/** @type {string} */ (pathname.split("/").at(-1)));
    return artifact ? new Response(artifact) : problem(404, "not_found");
  };
  const log = (/** @type {string} */ event, /** @type {object} */ details, /** @type {number} */ at) => void logged.push({ event, details, at });
  const session = new TrainingSession({
    base: "http://server.test",
    peer: { peerId: "me", token: "secret" },
    train,
    environment: { browser: "Firefox", browserVersion: "153", os: "Linux", logicalCores: cores, webgpu: "unavailable" },
    preferences: { maxLocalWorkers, backendPreference: "auto", gpuMemoryBudgetMiB: 1024 },
    store: { get: async () => null, put: async () => {}, delete: async () => {} },
    spawn:
      spawn ??
      (() => {
        const worker = new FakeWorker();
        workers.push(worker);
        return worker;
      }),
    ...(gpu ? { gpu } : {}),
    delegate: { changed: () => {}, hint: (jobId, what) => void hints.push([jobId, what]), live: () => {}, log },
    fetch: answer,
    WebSocket: /** @type {any} */ (FakeSocket),
    now: clock.now,
    wall: clock.now,
    httpStack: tus,
  });
  const welcome = (change = {}) => FakeSocket.last.says({ ...golden.server[0], ...change });
  /** @param {object} [change] */
  const state = (change = {}) => ({ peerId: "me", session: 3, invitations: [], job: JOB, assignment: null, ...change });
  return {
    session,
    clock,
    workers,
    calls,
    answers,
    bytes,
    hints,
    logged,
    tus,
    state,
    welcome,
    says: (/** @type {object} */ change) => FakeSocket.last.says({ type: "state", ...state(change) }),
    connect() {
      session.start();
      FakeSocket.last.open();
      welcome();
    },
    paths: () => calls.map(({ path }) => path),
    posted: (/** @type {string} */ path) => calls.filter((call) => call.method === "POST" && call.path === path),
    stage: () => session.state().participation.stage,
  };
}

/** @param {number} status @param {string} code @param {object} [extra] */
export const problem = (status, code, extra = {}) =>
  new Response(JSON.stringify({ title: `Refused: ${code}.`, code, ...extra }), { status, headers: { "Content-Type": "application/problem+json" } });
