import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { AbiHost } from "../../static/weei/host/abi.js";
import { trainAssignment } from "../../static/weei/host/assignment.js";
import { AbiError, failureSentence, refusalSentence } from "../../static/weei/host/errors.js";
import { compileModule } from "../../static/weei/host/module.js";
import { runPlan, shown } from "../../static/weei/host/node.js";

const root = new URL("../../", import.meta.url);
const binaries = new URL("tests/hosts/modules/binaries/", root);
const read = (/** @type {string | URL} */ path) => new Uint8Array(readFileSync(new URL(path, root)));
const binary = (/** @type {string} */ name) => new Uint8Array(readFileSync(new URL(`${name}.wasm`, binaries)));
const json = (/** @type {string | URL} */ path) => JSON.parse(readFileSync(new URL(path, root), "utf8"));
const hex = (/** @type {string} */ text) => new Uint8Array(Buffer.from(text, "hex"));

const codes = Object.keys(json("weei_core/abi/errors.json"));
const golden = json("tests/golden/transcripts.json");
const UNITS = { settings: "{}", round: 1, experience: { seed: "1", unitStart: 0, unitCount: 8 } };

/** Describe the module, then train from its own weights: what the table of hostile modules is written for. @param {string} name @param {import("../../static/weei/host/abi.js").HostOptions} [options] */
async function describeAndTrain(name, options) {
  const module = await compileModule(binary(name));
  const first = await AbiHost.create(module);
  first.getModelInfo();
  const weights = first.read(first.createInitialWeights("7"));
  await first.loadModel(weights);
  const outcome = await trainAssignment({ module, weights, auxiliary: [], work: UNITS }, options);
  return { ...outcome, weights: outcome.view.slice() };
}

for (const run of golden.runs) {
  test(`makes the golden calls, allocations and request bytes: ${run.name}`, async () => {
    const module = await compileModule(read(golden.module));
    /** @type {object[]} */
    const entries = [];
    const host = await AbiHost.create(module, { onProgress: () => {}, trace: (event) => entries.push(shown(event)) });
    host.getModelInfo();
    await host.loadModel(hex(golden.weightsHex));
    for (const slot of golden.auxiliary) await host.loadAuxiliary(slot.id, hex(slot.hex));
    const { operation, data, ...rest } = run.inputs;
    const work = { ...rest, ...data };
    const bytes = data ? hex(golden.dataHex) : undefined;
    const result = operation === "train" ? await host.train(work, bytes) : await host.evaluate(work, bytes);
    if ("weights" in result) host.read(/** @type {{pointer: number, bytes: number}} */ (result.weights));
    assert.deepEqual(entries, run.entries);
  });
}

test("a Blob is placed by the same calls as an array", async () => {
  const run = golden.runs[0];
  const module = await compileModule(read(golden.module));
  const auxiliary = golden.auxiliary.map((/** @type {{id: string, hex: string}} */ slot) => ({ id: slot.id, bytes: new Blob([hex(slot.hex)]) }));
  /** @type {object[]} */
  const entries = [];
  const { data, settings, round, seed } = run.inputs;
  const inputs = { module, weights: new Blob([hex(golden.weightsHex)]), auxiliary, data: new Blob([hex(golden.dataHex)]), work: { settings, round, seed, ...data } };
  await trainAssignment(inputs, { onProgress: () => {}, trace: (event) => entries.push(shown(event)) });
  const without = run.entries.slice(0, -1); // the last entry reads the weights
  assert.deepEqual(entries, without);
});

/** `plus_one` with room for large files: its memory may grow to 4 GiB instead of 4 MiB. */
function roomyModule() {
  const bytes = Buffer.from(read(golden.module));
  const memory = bytes.indexOf(Buffer.from([5, 4, 1, 1, 2, 64]));
  assert.ok(memory > 0);
  return compileModule(new Uint8Array(Buffer.concat([bytes.subarray(0, memory), Buffer.from([5, 6, 1, 1, 2, 0x80, 0x80, 4]), bytes.subarray(memory + 6)])));
}

test("auxiliary weights are copied from their Blob piece by piece; it is never read whole", async () => {
  const data = Uint8Array.from({ length: 20 * 1024 * 1024 + 4 }, (_, index) => (index * 7 + (index >>> 16)) % 251);
  const blob = new Blob([data]);
  /** @type {number[]} */
  const pieces = [];
  const slice = (/** @type {number} */ from, /** @type {number} */ to) => {
    const piece = blob.slice(from, to);
    pieces.push(piece.size);
    return piece;
  };
  /** @type {number[]} */
  const places = [];
  const host = await AbiHost.create(await roomyModule(), { trace: (event) => "write" in event && event.data.length > 1000 && places.push(event.write) });
  host.getModelInfo();
  await host.loadModel(hex(golden.weightsHex));
  await host.loadAuxiliary("large", /** @type {any} */ ({ size: blob.size, slice }));
  assert.deepEqual(pieces, [8 * 1024 * 1024, 8 * 1024 * 1024, 4 * 1024 * 1024 + 4]);
  const [pointer = 0] = places;
  assert.deepEqual(places, [pointer, pointer + 8 * 1024 * 1024, pointer + 16 * 1024 * 1024]);
  assert.ok(Buffer.from(host.read({ pointer, bytes: data.length })).equals(data));
});

/**
 * The browser runs only modules that the server's jail accepted by hash. These codes, and `answers_differ`, are the jail's alone: the time
 * limit is the control Worker's watchdog (runner.test.js), memory is the device's, and only some refused features can be seen from outside.
 */
const JAIL_ONLY = new Set(["time_limit", "memory_limit"]);
const OUTSIDE = new Set(["answers_differ", "grows_until_refused", "atomics", "relaxed_simd", "tail_call", "exceptions"]);
const hostile = /** @type {{name: string, code: string | null}[]} */ (json(new URL("hostile.json", binaries)));

for (const { name, code } of hostile) {
  if (JAIL_ONLY.has(code ?? "") || OUTSIDE.has(name)) continue;
  test(`${code ? "refuses" : "accepts"} the module ${name}${code ? ` as ${code}` : ""}`, async () => {
    if (!code) return void (await describeAndTrain(name));
    await assert.rejects(describeAndTrain(name), (error) => {
      assert.ok(error instanceof AbiError, String(error));
      assert.equal(error.code, code, error.message);
      assert.ok(error.message.trim() && error.message.length <= 1000);
      return true;
    });
  });
}

test("every module of the table is here, and every code is known", () => {
  const names = readdirSync(binaries).filter((file) => file.endsWith(".wasm")).map((file) => file.slice(0, -5));
  for (const { name, code } of hostile) assert.ok(names.includes(name) && (!code || codes.includes(code)), name);
});

test("memory that grows inside alloc or train is looked at anew (C55)", async () => {
  for (const name of ["alloc_grows_memory", "train_grows_memory"]) {
    const { weights } = await describeAndTrain(name);
    assert.ok(weights.length > 0 && weights.some((byte) => byte !== 0), name);
  }
});

test("bad progress is dropped and counted, and training goes on (C61)", async () => {
  for (const name of ["bad_reports", "falling_reports"]) {
    /** @type {number[]} */
    const seen = [];
    const { host } = await describeAndTrain(name, {
      onProgress: ({ processedExamples, totalExamples }) => {
        assert.ok(totalExamples === undefined || processedExamples <= totalExamples);
        seen.push(processedExamples);
      },
    });
    assert.ok(host.droppedReports > 0, name);
    assert.deepEqual(seen, [...seen].sort((one, other) => one - other), `${name} fell`);
  }
});

test("a flood of reports costs one look per interval (C61)", async () => {
  let looked = 0;
  let asked = 0;
  await describeAndTrain("flood_of_reports", {
    wantsProgress: () => {
      asked += 1;
      return asked === 1;
    },
    onProgress: () => {
      looked += 1;
    },
  });
  assert.equal(looked, 1);
  assert.ok(asked > 1000);
});

test("the host cannot be entered from its own progress callback", async () => {
  const module = await compileModule(read(golden.module));
  /** @type {AbiHost[]} */
  const hosts = [];
  /** @type {unknown[]} */
  const refused = [];
  const onProgress = () => {
    try {
      hosts[0]?.getModelInfo();
    } catch (error) {
      refused.push(/** @type {AbiError} */ (error).code);
    }
  };
  const host = await AbiHost.create(module, { onProgress });
  hosts.push(host);
  await host.loadModel(hex(golden.weightsHex));
  await host.train({ settings: "{}", round: 1, seed: "1", format: "bytes" }, hex(golden.dataHex));
  assert.ok(refused.length > 0 && refused.every((code) => code === "re_entry"), JSON.stringify(refused));
});

test("after a trap the instance is not used again, and a fresh one starts anew (C57)", async () => {
  const module = await compileModule(binary("unreachable"));
  const host = await AbiHost.create(module);
  host.getModelInfo();
  const weights = host.read(host.createInitialWeights("7"));
  await host.loadModel(weights);
  await assert.rejects(host.train(UNITS), { code: "trap" });
  assert.throws(() => host.getModelInfo(), { code: "poisoned" });
  const fresh = await AbiHost.create(module);
  assert.equal(typeof fresh.getModelInfo().id, "string");
});

test("whatever is thrown or returned as an error becomes a sentence with stage and module (C63)", () => {
  for (const value of [51885088, undefined, null, {}, "", "   ", new Error(""), { a: 1 }, 10n]) {
    const sentence = failureSentence("train", "digits", value);
    assert.match(sentence, /^train failed in module digits: \S/);
    assert.ok(!sentence.includes("[object Object]"), sentence);
  }
  assert.match(failureSentence("instantiate", "", 51885088), /51885088/);
  for (const reason of ["", 42, {}, null, ["x"]]) {
    const sentence = refusalSentence("loadModel", "digits", reason);
    assert.match(sentence, /loadModel.*digits/);
    assert.ok(!sentence.includes("[object Object]"));
  }
  assert.equal(refusalSentence("train", "digits", "no room <b>"), "no room <b>");
  assert.equal([...refusalSentence("train", "digits", "😀".repeat(900))].length, 500);
});

test("V8's two compilers give the same weights for the digits model", async () => {
  const folder = mkdtempSync(join(tmpdir(), "weei-"));
  const digits = fileURLToPath(new URL("reference_models/digits/", root));
  const work = { settings: '{"localEpochs":1,"batchSize":16,"learningRate":0.05}', round: 1, seed: "18446744073709551615", format: "digits-u8" };
  const manifest = json("reference_models/digits/data/manifest.json");
  work.format = manifest[0].format;
  const plan = { module: `${digits}digits.wasm`, weights: { seed: "7" }, data: `${digits}data/train-001.bin`, work };
  const path = join(folder, "plan.json");
  writeFileSync(path, JSON.stringify(plan));
  const script = fileURLToPath(new URL("static/weei/host/node.js", root));
  const answers = ["--liftoff-only", "--no-liftoff"].map((flag) => JSON.parse(execFileSync(process.execPath, [flag, script, path], { encoding: "utf8" })));
  assert.deepEqual(answers[0], answers[1]);
  const here = await runPlan(path);
  assert.equal(here.sha256, answers[0].sha256);
  assert.equal(createHash("sha256").update(here.weights).digest("hex"), here.sha256);
});

test("the runner says in JSON why a module was refused", () => {
  const folder = mkdtempSync(join(tmpdir(), "weei-"));
  const path = join(folder, "plan.json");
  writeFileSync(path, JSON.stringify({ module: fileURLToPath(new URL("imports_a_clock.wasm", binaries)), weights: { seed: "7" }, work: UNITS }));
  const script = fileURLToPath(new URL("static/weei/host/node.js", root));
  assert.throws(
    () => execFileSync(process.execPath, [script, path], { encoding: "utf8", stdio: "pipe" }),
    (error) => {
      const { stdout } = /** @type {{stdout: string}} */ (error);
      assert.equal(JSON.parse(stdout).error.code, "import_not_allowed");
      return true;
    },
  );
});
