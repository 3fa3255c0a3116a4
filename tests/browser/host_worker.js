/** The contract suite inside a Worker of a real browser: what tests/js/abi.test.js does in Node, on the same files. */
import { AbiHost } from "/static/weei/host/abi.js";
import { trainAssignment } from "/static/weei/host/assignment.js";
import { compileModule } from "/static/weei/host/module.js";

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

const tasks = {
  /** One digits assignment, with every call. */
  async digits({ work }) {
    const module = await compileModule(await file("/reference_models/digits/digits.wasm"));
    const first = await AbiHost.create(module);
    first.getModelInfo();
    const weights = first.view(first.createInitialWeights("7")).slice();
    const calls = [];
    const data = await file("/reference_models/digits/data/train-001.bin");
    const options = { onProgress: () => {}, trace: (event) => calls.push(shown(event)) };
    const { view } = await trainAssignment({ module, weights, auxiliary: [], work, data }, options);
    return { weights: btoa(String.fromCharCode(...view)), calls };
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
