/** The contract suite inside a Worker of a real browser: what tests/js/abi.test.js does in Node, on the same files. */
import { sha256 } from "/static/weei/hash.js";
import { AbiHost } from "/static/weei/host/abi.js";
import { trainAssignment } from "/static/weei/host/assignment.js";
import { compileModule } from "/static/weei/host/module.js";
import { WorkerPool } from "/static/weei/training/pool.js";
import { mergeRanges, worksOf } from "/static/weei/training/ranges.js";

const file = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
const json = async (name) => (await fetch(name)).json();
const hex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

function shown(event) {
  if (!("data" in event)) return event;
  const { data, ...rest } = event;
  const bytes = new Uint8Array(data);
  if (bytes[0] === 0x7b) return { ...rest, text: new TextDecoder().decode(bytes) };
  return { ...rest, hex: [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("") };
}

async function weightsOf(module, source) {
  if (typeof source === "string") return file(`/${source}`);
  const host = await AbiHost.create(module);
  host.getModelInfo();
  return host.view(host.createInitialWeights(source.seed)).slice();
}

const tasks = {
  /** One assignment of tests/hosts/plans.py, with every call. */
  async assignment({ plan }) {
    const module = await compileModule(await file(`/${plan.module}`));
    const auxiliary = [];
    for (const slot of plan.auxiliary) auxiliary.push({ id: slot.id, bytes: await weightsOf(module, slot.file) });
    const weights = await weightsOf(module, plan.weights);
    const data = plan.data && (await file(`/${plan.data}`));
    const calls = [];
    const options = { onProgress: () => {}, trace: (event) => calls.push(shown(event)) };
    const { view } = await trainAssignment({ module, weights, auxiliary, work: plan.work, data }, options);
    return { sha256: await sha256(new Blob([view])), calls };
  },

  /** A plan's assignment, divided, on two training Workers. */
  async divided({ plan, split }) {
    const module = await compileModule(await file(`/${plan.module}`));
    const start = new Blob([await weightsOf(module, plan.weights)]);
    const pool = new WorkerPool(() => new Worker("/static/weei/train-worker.js", { type: "module" }), () => 2);
    const limits = { stallMinutes: 1, signal: new AbortController().signal };
    const ranges = await pool.train({ module, weights: start, auxiliary: [] }, await worksOf({ ...plan.work, split }), limits);
    pool.terminate();
    const { weights, result } = await mergeRanges(start, ranges, limits.signal);
    return { sha256: await sha256(weights), result };
  },

  /** The golden merges of divided assignments: the SHA-256 of each. */
  async ranges() {
    const found = [];
    for (const { start, parts } of await json("/tests/golden/ranges.json")) {
      const ranges = parts.map(({ weights, ...result }) => ({ weights: new Blob([hex(weights)]), result }));
      const { weights } = await mergeRanges(new Blob([hex(start)]), ranges, new AbortController().signal);
      found.push(await sha256(weights));
    }
    return found;
  },

  /** What the untrained digits model says of an image, and how many examples it finds in a chunk. */
  async predict({ pixels }) {
    const host = await AbiHost.create(await compileModule(await file("/reference_models/digits/digits.wasm")));
    host.getModelInfo();
    const weights = host.view(host.createInitialWeights("7")).slice();
    await host.loadModel(weights);
    const count = await host.inspectData(await file("/reference_models/digits/data/train-001.bin"), "digits-u8-v1");
    return { count, output: host.predict({ pixels }) };
  },

  /** The golden transcripts: name → entries. */
  async transcripts() {
    const golden = await json("/tests/golden/transcripts.json");
    const module = await compileModule(await file(`/${golden.module}`));
    const found = {};
    for (const run of golden.runs) {
      const entries = [];
      const host = await AbiHost.create(module, { onProgress: () => {}, trace: (event) => entries.push(shown(event)) });
      host.getModelInfo();
      await host.loadModel(hex(golden.weightsHex));
      for (const slot of golden.auxiliary) await host.loadAuxiliary(slot.id, hex(slot.hex));
      const { operation, data, ...rest } = run.inputs;
      const bytes = data ? hex(golden.dataHex) : undefined;
      const result = await host[operation]({ ...rest, ...data }, bytes);
      if (result.weights) host.read(result.weights);
      found[run.name] = entries;
    }
    return found;
  },

  /** Hostile and odd modules: name → error code, or null when it trained. */
  async modules({ names }) {
    const found = {};
    for (const name of names) {
      try {
        const module = await compileModule(await file(`/tests/hosts/modules/binaries/${name}.wasm`));
        const first = await AbiHost.create(module);
        first.getModelInfo();
        const weights = first.read(first.createInitialWeights("7"));
        await first.loadModel(weights);
        const work = { settings: "{}", round: 1, experience: { seed: "1", unitStart: 0, unitCount: 8 } };
        await trainAssignment({ module, weights, auxiliary: [], work });
        found[name] = null;
      } catch (error) {
        found[name] = error.code ?? `not an AbiError: ${error}`;
      }
    }
    return found;
  },
};

onmessage = async ({ data: { task, ...options } }) => {
  try {
    postMessage({ answer: await tasks[task](options) });
  } catch (error) {
    postMessage({ error: String(error?.stack ?? error) });
  }
};
