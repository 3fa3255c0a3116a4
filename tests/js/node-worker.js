/** The training Worker in a Node thread, behind the interface of a browser's Worker. */
import { Worker } from "node:worker_threads";

const SHIM = `
  const { parentPort } = require("node:worker_threads");
  globalThis.self = globalThis;
  globalThis.postMessage = (message) => parentPort.postMessage(message);
  const early = [];
  parentPort.on("message", (data) => (globalThis.onmessage ? globalThis.onmessage({ data }) : early.push(data)));
  import(process.env.WEEI_WORKER).then(() => early.forEach((data) => globalThis.onmessage({ data })));
`;

/** @returns {import("../../static/weei/training/runner.js").WorkerLike & {ended: Promise<number>}} */
export function spawnNodeWorker() {
  const WEEI_WORKER = new URL("../../static/weei/train-worker.js", import.meta.url).href;
  const worker = new Worker(SHIM, { eval: true, env: { ...process.env, WEEI_WORKER } });
  /** @type {any} */
  const like = {
    onmessage: null,
    onerror: null,
    onmessageerror: null,
    postMessage: (/** @type {unknown} */ message) => worker.postMessage(message),
    terminate: () => void worker.terminate(),
    ended: new Promise((resolve) => worker.once("exit", resolve)),
  };
  worker.on("message", (data) => like.onmessage?.({ data }));
  worker.on("error", (error) => like.onerror?.({ message: error.message }));
  return like;
}
