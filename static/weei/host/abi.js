/**
 * Weei WASM ABI 1 in JavaScript: one module instance, DOM-free, the same in Workers and Node (docs/abi.md). The order of calls and
 * allocations is part of the contract: it decides every address, so it must be the same on every host.
 */
import { AbiError, failureSentence, rawText, refusalSentence } from "./errors.js";
import { parseStrict } from "./json.js";
import { auxiliaryRequest, evaluateRequest, inspectRequest, predictRequest, trainRequest, weightsRequest } from "./requests.js";
import { allFinite, buffer, evaluateResult, isCount, isObject, progressReport, promised, trainResult } from "./results.js";

/** @typedef {Blob | Uint8Array} Bytes */
/** @typedef {{pointer: number, bytes: number}} Range */
/** @typedef {{onProgress?: (report: import("../types.js").TrainReport) => void, wantsProgress?: () => boolean, trace?: (event: TraceEvent) => void}} HostOptions */
/** @typedef {{call: string, arguments: number[], result?: number} | {write: number, data: Uint8Array} | {read: number, data: Uint8Array}} TraceEvent */
/** @typedef {import("./requests.js").Work} Work */

const MAX_RESULT_BYTES = 1024 * 1024;
const MAX_MODEL_INFO_BYTES = 256 * 1024;
const MAX_REPORT_BYTES = 16 * 1024;
const ALIGNMENT = 16;
/** A Blob is copied into memory in pieces, so that no second whole copy exists. */
const PIECE_BYTES = 8 * 1024 * 1024;

export class AbiHost {
  /** @type {WebAssembly.Memory | null} */ #memory = null;
  /** @type {Record<string, Function>} */ #exports = {};
  /** @type {string | null} the operation that runs now */ #running = null;
  #dead = false;
  #moduleId = "";
  #highest = 0;
  #loadedBytes = 0;
  /** @type {Map<number, number>} buffers that are the host's until freed or handed over */ #owned = new Map();
  /** @type {HostOptions} */ #options;

  /** Reports that were dropped because they did not fit. */
  droppedReports = 0;

  /** @param {HostOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /**
   * A fresh instance; never used again for another assignment.
   * @param {WebAssembly.Module} module from `compileModule`
   * @param {HostOptions} [options]
   */
  static async create(module, options = {}) {
    const host = new AbiHost(options);
    await host.#start(module);
    return host;
  }

  /** @param {WebAssembly.Module} module */
  async #start(module) {
    const onProgress = (/** @type {number} */ pointer, /** @type {number} */ bytes) => this.#report(pointer, bytes);
    this.#running = "instantiate";
    try {
      const instance = await WebAssembly.instantiate(module, { weei: { onProgress } });
      this.#exports = /** @type {Record<string, Function>} */ (/** @type {unknown} */ (instance.exports));
      this.#memory = /** @type {WebAssembly.Memory} */ (instance.exports.memory);
      this.#exports._initialize?.();
    } catch (error) {
      this.#dead = true;
      throw this.#trap("instantiate", error);
    } finally {
      this.#running = null;
    }
  }

  /** `getModelInfo`, which also gives the module its name in errors. The server has checked its fields before anybody ran it. */
  getModelInfo() {
    const result = this.#json("getModelInfo", "{}", { limit: MAX_MODEL_INFO_BYTES });
    const info = /** @type {import("../types.js").ModelInfo} */ (/** @type {unknown} */ (result));
    this.#moduleId = typeof info.id === "string" ? info.id : "";
    for (const operation of promised(info)) this.#need(operation);
    return info;
  }

  /** @param {string} seed decimal text @returns {Range} */
  createInitialWeights(seed) {
    const range = buffer("createInitialWeights", this.#json("createInitialWeights", JSON.stringify({ seed })));
    this.#checkWeights("createInitialWeights", range);
    return range;
  }

  /** @param {Bytes} weights */
  async loadModel(weights) {
    const placed = await this.#place(weights);
    this.#json("loadModel", weightsRequest(placed), { free: placed });
    this.#owned.delete(placed.pointer);
    this.#loadedBytes = placed.bytes;
  }

  /** @param {string} id @param {Bytes} weights */
  async loadAuxiliary(id, weights) {
    const placed = await this.#place(weights);
    this.#json("loadAuxiliary", auxiliaryRequest(id, placed), { free: placed });
    this.#owned.delete(placed.pointer);
  }

  /** @param {Work} work @param {Bytes} [data] */
  async train(work, data) {
    const placed = data ? await this.#place(data) : null;
    const result = trainResult(this.#json("train", trainRequest(work, placed), { free: placed }));
    this.#checkWeights("train", result.weights);
    if (placed) this.#free(placed);
    return result;
  }

  /** @param {Work} work @param {Bytes} [data] */
  async evaluate(work, data) {
    const placed = data ? await this.#place(data) : null;
    const result = evaluateResult(this.#json("evaluate", evaluateRequest(work, placed), { free: placed }));
    if (placed) this.#free(placed);
    return result;
  }

  /** @param {Bytes} data @param {string} format @returns {Promise<number>} examples in this chunk */
  async inspectData(data, format) {
    const placed = await this.#place(data);
    const { exampleCount } = this.#json("inspectData", inspectRequest({ format }, placed), { free: placed });
    this.#free(placed);
    if (!isCount(exampleCount)) throw new AbiError("invalid_result", "inspectData returned exampleCount that is not a whole number.");
    return exampleCount;
  }

  /** @param {object} input in the form of `ModelInfo.inference` */
  predict(input) {
    const { output } = this.#json("predict", predictRequest(input));
    if (!isObject(output)) throw new AbiError("invalid_result", "predict returned output that is not an object.");
    return output;
  }

  /**
   * The bytes of a range of memory. Valid until the next call into the module: copy or send them at once.
   * @param {Range} range
   */
  view({ pointer, bytes }) {
    const memory = /** @type {WebAssembly.Memory} */ (this.#memory).buffer;
    if (pointer + bytes > memory.byteLength) {
      throw new AbiError("out_of_bounds", `The module named ${bytes} bytes at ${pointer}, outside its ${memory.byteLength} bytes of memory.`);
    }
    return new Uint8Array(/** @type {ArrayBuffer} */ (memory), pointer, bytes);
  }

  /** @param {Bytes} source @returns {Promise<Range>} */
  async #place(source) {
    const size = source instanceof Uint8Array ? source.byteLength : source.size;
    const range = this.#alloc(size);
    if (source instanceof Uint8Array) {
      this.#write(range, source);
      return range;
    }
    for (let at = 0; at < size; at += PIECE_BYTES) {
      const piece = new Uint8Array(await source.slice(at, at + PIECE_BYTES).arrayBuffer());
      this.#write({ pointer: range.pointer + at, bytes: piece.byteLength }, piece);
    }
    return range;
  }

  /** @param {Range} range @param {Uint8Array} data */
  #write(range, data) {
    this.view(range).set(data);
    this.#options.trace?.({ write: range.pointer, data: data.slice() });
  }

  /**
   * A copy that outlives the next call. @param {Range} range
   */
  read(range) {
    const data = this.view(range).slice();
    this.#options.trace?.({ read: range.pointer, data });
    return data;
  }

  /** @param {number} bytes @returns {Range} */
  #alloc(bytes) {
    const pointer = this.#call("alloc", bytes);
    if (pointer === 0) throw new AbiError("alloc_failed", `The module could not alloc ${bytes} bytes.`);
    const range = { pointer, bytes };
    this.view(range);
    if (pointer % ALIGNMENT) throw new AbiError("alloc_misaligned", `alloc(${bytes}) returned ${pointer}, which is not a multiple of 16.`);
    for (const [start, length] of this.#owned) {
      if (pointer < start + length && start < pointer + bytes) {
        throw new AbiError("alloc_overlap", `alloc(${bytes}) returned ${pointer}, inside a buffer that is in use.`);
      }
    }
    this.#owned.set(pointer, bytes);
    return range;
  }

  /** @param {Range} range */
  #free(range) {
    this.#owned.delete(range.pointer);
    this.#call("free", range.pointer, range.bytes);
  }

  /** @param {string} operation @param {Range} weights */
  #checkWeights(operation, weights) {
    const { bytes } = weights;
    if (bytes === 0 || bytes % 4 || (this.#loadedBytes && bytes !== this.#loadedBytes)) {
      const expected = this.#loadedBytes ? `${this.#loadedBytes} bytes were loaded` : "a positive multiple of 4 is needed";
      throw new AbiError("wrong_size", `${operation} returned ${bytes} bytes of weights; ${expected}.`);
    }
    if (!allFinite(this.view(weights))) throw new AbiError("non_finite", `${operation} returned weights that are not all finite.`);
  }

  /**
   * Write the request, call, read the answer before any other call, free the request. `free` is a buffer that goes back to the host
   * when the module answers with an error.
   * @param {string} operation @param {string} text @param {{limit?: number, free?: Range | null}} [options]
   * @returns {Record<string, unknown>}
   */
  #json(operation, text, { limit = MAX_RESULT_BYTES, free } = {}) {
    this.#need(operation);
    const request = new TextEncoder().encode(text);
    const range = this.#alloc(request.byteLength);
    this.#write(range, request);
    const pointer = this.#call(operation, range.pointer, range.bytes);
    const bytes = this.#call("resultLength");
    if (bytes > limit) throw new AbiError("result_too_large", `${operation} returned ${bytes} bytes; at most ${limit} are allowed.`);
    // Copied first: free is a call, after which the bytes may be gone.
    const copy = this.read({ pointer, bytes });
    this.#free(range);
    try {
      return this.#accepted(operation, decode(operation, copy));
    } catch (error) {
      if (free) this.#free(free);
      throw error;
    }
  }

  /** @param {string} operation */
  #need(operation) {
    if (!this.#exports[operation]) throw new AbiError("export_missing", `The module does not export the function ${operation}.`);
  }

  /** @param {string} operation @param {Record<string, unknown>} result */
  #accepted(operation, result) {
    if (!Object.hasOwn(result, "error")) return result;
    throw new AbiError("module_error", refusalSentence(operation, this.#moduleId, result.error));
  }

  /** Addresses and lengths come back unsigned. @param {string} name @param {number[]} args @returns {number} */
  #call(name, ...args) {
    if (this.#running) throw new AbiError("re_entry", `${name} was called while ${this.#running} runs.`);
    if (this.#dead) throw new AbiError("poisoned", `${name} was called on an instance that failed before.`);
    this.#running = name;
    try {
      const result = /** @type {Function} */ (this.#exports[name])(...args) >>> 0;
      this.#options.trace?.({ call: name, arguments: args, ...(name === "free" ? {} : { result }) });
      return result;
    } catch (error) {
      this.#dead = true;
      throw this.#trap(name, error);
    } finally {
      this.#running = null;
    }
  }

  /** @param {string} stage @param {unknown} error */
  #trap(stage, error) {
    if (error instanceof AbiError) return error;
    // Instantiation throws a RangeError where the device has no room for the declared memory (C62).
    const code = stage === "instantiate" && error instanceof RangeError ? "memory_limit" : "trap";
    return new AbiError(code, failureSentence(stage, this.#moduleId, error));
  }

  /** The module's import. Never throws into the module, never blocks on anybody. @param {number} pointer @param {number} bytes */
  #report(pointer, bytes) {
    const { onProgress, wantsProgress } = this.#options;
    if (!onProgress || (wantsProgress && !wantsProgress())) return;
    const report = this.#readReport(pointer >>> 0, bytes >>> 0);
    if (!report || report.processedExamples < this.#highest) {
      this.droppedReports += 1;
      return;
    }
    this.#highest = report.processedExamples;
    try {
      onProgress(report);
    } catch {
      this.droppedReports += 1;
    }
  }

  /** @param {number} pointer @param {number} bytes */
  #readReport(pointer, bytes) {
    if (!this.#memory || bytes > MAX_REPORT_BYTES) return null;
    try {
      return progressReport(decode("onProgress", this.read({ pointer, bytes })));
    } catch {
      return null;
    }
  }
}

/** @param {string} operation @param {Uint8Array} view @returns {Record<string, unknown>} */
function decode(operation, view) {
  let value;
  try {
    value = parseStrict(view);
  } catch (error) {
    throw new AbiError("invalid_result", `${operation} returned bytes that are not strict JSON in UTF-8: ${rawText(error)}.`);
  }
  if (!isObject(value)) throw new AbiError("invalid_result", `${operation} returned JSON that is not an object.`);
  return value;
}
