/**
 * Reads what a WebAssembly binary imports and exports, with signatures, before anything of it runs. `WebAssembly.Module.imports()`
 * has no signatures, and JavaScript would accept any.
 */
import { AbiError } from "./errors.js";

const KINDS = ["function", "table", "memory", "global", "tag"];
const I32 = 0x7f;
/** @type {Record<string, string>} parameters and results, one letter each; operations are checked by OPERATION */
const SUPPORT = { alloc: "i:i", free: "ii:", resultLength: ":i" };
const OPERATION = "ii:i";
const NEEDED = ["getModelInfo", "createInitialWeights", "loadModel", "train"];
export const OPERATIONS = Object.freeze([
  ...NEEDED,
  "loadAuxiliary",
  "evaluate",
  "inspectData",
  "predict",
  "gpuBegin",
  "gpuNext",
  "gpuEnd",
]);

/** @typedef {{module: string, name: string, kind: string, signature: string}} Import */
/** @typedef {{kind: string, index: number}} Export */
/** @typedef {{shared: boolean, wide: boolean}} Memory */

class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  byte() {
    const value = this.bytes[this.at];
    if (value === undefined) throw new AbiError("invalid_module", "The module ends in the middle of a section.");
    this.at += 1;
    return value;
  }

  /** Unsigned LEB128; 64-bit limits of memory64 lose precision, which only matters for a refusal. */
  unsigned() {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      if (scale > 2 ** 56) throw new AbiError("invalid_module", "The module holds a number that is too long.");
    }
  }

  name() {
    const size = this.unsigned();
    this.at += size;
    return new TextDecoder().decode(this.bytes.subarray(this.at - size, this.at));
  }

  /** @returns {Memory} */
  limits() {
    const flags = this.unsigned();
    this.unsigned();
    if (flags & 1) this.unsigned();
    return { shared: Boolean(flags & 2), wide: Boolean(flags & 4) };
  }

  valueTypes() {
    let text = "";
    for (let left = this.unsigned(); left > 0; left -= 1) text += this.byte() === I32 ? "i" : "?";
    return text;
  }
}

/** The parts of a binary that decide whether it may be instantiated. */
export class ModuleLayout {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    /** @type {string[]} */ this.types = [];
    /** @type {Import[]} */ this.imports = [];
    /** @type {string[]} signatures by function index, imports first */ this.functions = [];
    /** @type {Memory[]} */ this.memories = [];
    /** @type {Map<string, Export>} */ this.exports = new Map();
    const reader = new Reader(bytes);
    const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
    if (bytes.length < 8 || header.some((byte, index) => bytes[index] !== byte)) {
      throw new AbiError("not_wasm", "The file is not a WebAssembly 1 core module.");
    }
    reader.at = 8;
    while (reader.at < bytes.length) this.#section(reader);
  }

  /** @param {Reader} reader */
  #section(reader) {
    const id = reader.byte();
    const size = reader.unsigned();
    const end = reader.at + size;
    if (end > reader.bytes.length) throw new AbiError("invalid_module", "The module ends in the middle of a section.");
    const read = { 1: this.#type, 2: this.#import, 3: this.#function, 5: this.#memory, 7: this.#export }[id];
    if (read) for (let left = reader.unsigned(); left > 0; left -= 1) read.call(this, reader);
    reader.at = end;
  }

  /** @param {Reader} reader */
  #type(reader) {
    if (reader.byte() !== 0x60) throw new AbiError("feature_refused", "The module uses types of the GC proposal.");
    this.types.push(`${reader.valueTypes()}:${reader.valueTypes()}`);
  }

  /** @param {Reader} reader */
  #import(reader) {
    const module = reader.name();
    const name = reader.name();
    const kind = KINDS[reader.byte()] ?? "unknown";
    let signature = "";
    if (kind === "function") {
      signature = this.types[reader.unsigned()] ?? "?";
      this.functions.push(signature);
    } else if (kind === "memory") {
      this.memories.push(reader.limits());
    } else {
      throw new AbiError("import_not_allowed", `The module imports ${module}.${name}; only weei.onProgress is allowed.`);
    }
    this.imports.push({ module, name, kind, signature });
  }

  /** @param {Reader} reader */
  #function(reader) {
    this.functions.push(this.types[reader.unsigned()] ?? "?");
  }

  /** @param {Reader} reader */
  #memory(reader) {
    this.memories.push(reader.limits());
  }

  /** @param {Reader} reader */
  #export(reader) {
    const name = reader.name();
    const kind = KINDS[reader.byte()] ?? "unknown";
    this.exports.set(name, { kind, index: reader.unsigned() });
  }
}

/** @param {ModuleLayout} layout */
function checkImports(layout) {
  for (const { module, name, kind } of layout.imports) {
    if (module !== "weei" || name !== "onProgress" || kind !== "function") {
      throw new AbiError("import_not_allowed", `The module imports ${module}.${name}; only the function weei.onProgress is allowed.`);
    }
  }
  if (layout.imports.length > 1) throw new AbiError("import_not_allowed", "The module imports weei.onProgress more than once.");
  const signature = layout.imports[0]?.signature ?? "ii:";
  if (signature !== "ii:") {
    throw new AbiError("import_not_allowed", "The module imports weei.onProgress with another signature than (i32, i32).");
  }
}

/** @param {ModuleLayout} layout @param {string} name @param {string} expected */
function checkFunction(layout, name, expected) {
  const found = layout.exports.get(name);
  if (!found) throw new AbiError("export_missing", `The module must export the function ${name}; it does not.`);
  if (found.kind !== "function" || layout.functions[found.index] !== expected) {
    throw new AbiError("export_signature", `The module exports ${name} with another signature than the ABI's.`);
  }
}

/** @param {ModuleLayout} layout */
function checkExports(layout) {
  const memory = layout.exports.get("memory");
  if (memory && memory.kind !== "memory") throw new AbiError("export_signature", "The export memory must be a memory.");
  const limits = memory && layout.memories[memory.index];
  if (!limits) throw new AbiError("export_missing", "The module does not export its memory as memory.");
  if (layout.memories.length > 1) throw new AbiError("feature_refused", "The module has more than one memory.");
  if (limits.shared || limits.wide) {
    throw new AbiError("feature_refused", "The module's memory is shared or 64-bit; it must be a plain 32-bit memory.");
  }
  for (const [name, signature] of Object.entries(SUPPORT)) checkFunction(layout, name, signature);
  for (const name of OPERATIONS) {
    if (NEEDED.includes(name) || layout.exports.has(name)) checkFunction(layout, name, OPERATION);
  }
  if (layout.exports.has("_initialize")) checkFunction(layout, "_initialize", ":");
}

/**
 * Refuses, by name, whatever must not be instantiated.
 * @param {Uint8Array} bytes
 */
export function checkModule(bytes) {
  const layout = new ModuleLayout(bytes);
  checkImports(layout);
  checkExports(layout);
}

/**
 * Check, then compile. The result may be posted to Workers and instantiated any number of times.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compileModule(bytes) {
  checkModule(bytes);
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new AbiError("invalid_module", `The module does not compile here: ${error instanceof Error ? error.message : String(error)}`);
  }
}
