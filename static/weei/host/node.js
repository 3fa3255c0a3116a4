/**
 * Trains one assignment from files, for the contract suite: `node static/weei/host/node.js plan.json [--out weights.bin]`, and with V8's
 * `--liftoff-only` or `--no-liftoff` before the file name. Prints one JSON object: the SHA-256 of the weights, the result, and every call
 * with its addresses and request bytes.
 *
 * plan.json: `{module, weights, auxiliary?: [{id, file}], data?, work}`; paths are relative to the working directory. Instead of a file of
 * weights there may be `{seed}`: the initial weights of that seed.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";

import { AbiHost } from "./abi.js";
import { trainAssignment } from "./assignment.js";
import { compileModule } from "./module.js";

/** @param {string} path @returns {Uint8Array<ArrayBuffer>} */
const file = (path) => new Uint8Array(readFileSync(path));

/** @param {WebAssembly.Module} module @param {string} seed */
async function initialWeights(module, seed) {
  const host = await AbiHost.create(module);
  host.getModelInfo();
  return host.view(host.createInitialWeights(seed)).slice();
}

/**
 * JSON as text, anything else in hexadecimal: the form of tests/golden/transcripts.json.
 * @param {import("./abi.js").TraceEvent} event
 */
export function shown(event) {
  if (!("data" in event)) return event;
  const { data, ...rest } = event;
  const bytes = Buffer.from(data);
  return { ...rest, ...(bytes[0] === 0x7b ? { text: bytes.toString("utf8") } : { hex: bytes.toString("hex") }) };
}

/** @param {string} planPath */
export async function runPlan(planPath) {
  const plan = JSON.parse(readFileSync(planPath, "utf8"));
  const module = await compileModule(file(plan.module));
  const weightsOf = async (/** @type {string | {seed: string}} */ source) =>
    typeof source === "string" ? file(source) : initialWeights(module, source.seed);
  const auxiliary = [];
  for (const slot of plan.auxiliary ?? []) auxiliary.push({ id: slot.id, bytes: await weightsOf(slot.file) });
  const weights = await weightsOf(plan.weights);
  /** @type {object[]} */
  const calls = [];
  const inputs = { module, weights, auxiliary, work: plan.work, ...(plan.data ? { data: file(plan.data) } : {}) };
  const { result, view } = await trainAssignment(inputs, { onProgress: () => {}, trace: (event) => calls.push(shown(event)) });
  return { sha256: createHash("sha256").update(view).digest("hex"), result, calls, weights: view.slice() };
}

if (process.argv[1] && import.meta.url.endsWith("/host/node.js") && process.argv[1].endsWith("node.js")) {
  const [plan, flag, out] = process.argv.slice(2);
  try {
    const { weights, ...report } = await runPlan(/** @type {string} */ (plan));
    if (flag === "--out" && out) writeFileSync(out, weights);
    process.stdout.write(`${JSON.stringify(report)}\n`);
  } catch (error) {
    const { code, message } = /** @type {{code?: string, message: string}} */ (error);
    process.stdout.write(`${JSON.stringify({ error: { code: code ?? "host", message } })}\n`);
    process.exitCode = 1;
  }
}
