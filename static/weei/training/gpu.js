/** What can be said of this device's GPU without training on it: asked once, in the background, with a time limit. */
import { MAX_SNAPSHOT_TEXT } from "../protocol.js";

const LIMIT_MS = 10_000;
const MAX_NAME = 100;
const NAMES = /** @type {const} */ (["vendor", "architecture", "device", "description"]);

/** @typedef {Record<typeof NAMES[number], string>} Adapter */
/** @typedef {{adapter: Adapter | "unknown", error: string | null}} GpuFacts `error`: null after a success, "unknown" before any attempt */
/** @typedef {{destroy(): void}} GpuDevice */
/** @typedef {{info?: Partial<Adapter>, requestDevice(): Promise<GpuDevice>}} GpuAdapter */
/** @typedef {{requestAdapter(): Promise<GpuAdapter | null>}} Gpu the part of `navigator.gpu` that is used here */

/** @type {GpuFacts} */
export const NOT_TRIED = Object.freeze({ adapter: "unknown", error: "unknown" });

/**
 * Never throws. A driver that hangs is given up; what it answers later is not awaited.
 * @param {Gpu} gpu @param {{limitMs?: number}} [options] @returns {Promise<GpuFacts>}
 */
export async function probeGpu(gpu, { limitMs = LIMIT_MS } = {}) {
  /** @type {GpuFacts} */
  const facts = { adapter: "unknown", error: null };
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const tooLate = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`The GPU did not answer within ${limitMs / 1000} seconds.`)), limitMs);
  });
  try {
    await Promise.race([initialize(gpu, facts), tooLate]);
    return { ...facts };
  } catch (error) {
    return { ...facts, error: sentenceOf(error).slice(0, MAX_SNAPSHOT_TEXT) };
  } finally {
    clearTimeout(timer);
  }
}

/** Fills in what is found on the way. @param {Gpu} gpu @param {GpuFacts} facts */
async function initialize(gpu, facts) {
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error("This browser found no GPU that it may use.");
  facts.adapter = adapterOf(adapter.info ?? {});
  const device = await adapter.requestDevice();
  device.destroy();
}

/** Browsers hide what would tell people apart by empty texts. @param {Partial<Adapter>} info @returns {Adapter | "unknown"} */
function adapterOf(info) {
  const shown = NAMES.map((name) => [name, String(info[name] ?? "").slice(0, MAX_NAME) || "unknown"]);
  return shown.every(([, value]) => value === "unknown") ? "unknown" : Object.fromEntries(shown);
}

/** @param {unknown} error */
function sentenceOf(error) {
  if (error instanceof Error && error.message) return error.message;
  return `The GPU could not be used: ${String(error) || "no reason was given"}.`;
}

/**
 * Why a device that was asked for its GPU computes on the CPU; null when it does what was asked for.
 * @param {{requested: import("../types.js").DevicePreferences["backendPreference"], shaders: boolean,
 *   webgpu: import("../types.js").Environment["webgpu"], gpu: GpuFacts}} of
 */
export function fallbackReason({ requested, shaders, webgpu, gpu }) {
  if (requested === "auto" || requested === "cpu") return null;
  if (!shaders) return "The job has no GPU shaders.";
  if (webgpu === "unavailable") return "This browser has no WebGPU.";
  if (gpu.error !== null && gpu.error !== "unknown") return gpu.error;
  return "This version of Weei trains on the CPU only.";
}
