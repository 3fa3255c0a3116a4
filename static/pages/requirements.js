// What a device can do, compared with what an invitation asks for, before anything is downloaded.

// (module (func (result v128) (i32.const 0) (i8x16.splat))): only an engine with SIMD accepts it.
const SIMD_MODULE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11,
]);

/** Features this page can test. @type {Record<string, () => boolean>} */
const TESTS = {
  wasm: () => typeof WebAssembly === "object",
  "wasm-simd128": () => typeof WebAssembly === "object" && WebAssembly.validate(SIMD_MODULE),
  webgpu: () => "gpu" in navigator,
};

/** @param {{requiredFeatures?: string[], minimumDeviceLimits?: Record<string, number>, estimatedWorkingBytes?: number | null}} needs
 * @param {Record<string, () => boolean>} [tests]
 * @param {number | undefined} [deviceGiB] memory as the browser tells it (rounded, at most 8)
 * @returns {{missing: string[], doubts: string[]}} `missing` keeps this device from training, `doubts` may slow it */
export function checkDevice(needs, tests = TESTS, deviceGiB = /** @type {any} */ (globalThis.navigator)?.deviceMemory) {
  const missing = [];
  const doubts = [];
  if (!tests["wasm"]?.()) missing.push("This browser has no WebAssembly.");
  for (const feature of needs.requiredFeatures ?? []) {
    const test = tests[feature];
    if (!test) doubts.push(`Whether this browser has “${feature}” cannot be told from here.`);
    else if (!test()) missing.push(`This browser lacks “${feature}”, which the model needs.`);
  }
  const bytes = needs.estimatedWorkingBytes;
  if (typeof bytes === "number" && typeof deviceGiB === "number" && bytes > deviceGiB * 2 ** 30) {
    doubts.push("The model needs more memory than this device seems to have.");
  }
  if (Object.keys(needs.minimumDeviceLimits ?? {}).length && !TESTS["webgpu"]?.()) {
    doubts.push("There is no WebGPU here: training runs on the CPU if the model can.");
  }
  return { missing, doubts };
}
