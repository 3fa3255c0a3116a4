// An independent reader of a checkpoint file, after the example of the founding text; nothing of this project is imported.
// node read_checkpoint.mjs FILE prints what it found as JSON.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";

async function readCheckpoint(file) {
  const bytes = await file.arrayBuffer();
  const metadataBytes = new DataView(bytes).getUint32(0, true);
  const metadata = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, metadataBytes)));
  const start = 4 + metadataBytes;
  const weights = new Float32Array(bytes.slice(start, start + metadata.checkpoint.bytes));
  const state = metadata.version === 2
    ? new Float32Array(bytes.slice(start + metadata.checkpoint.bytes))
    : undefined;
  return { metadata, weights, state, bytes: bytes.byteLength, start };
}

const sha256 = (floats) => createHash("sha256").update(new Uint8Array(floats.buffer)).digest("hex");

const { metadata, weights, state, bytes, start } = await readCheckpoint(new Blob([await readFile(process.argv[2])]));
console.log(
  JSON.stringify({
    metadata,
    weights: { sha256: sha256(weights), count: weights.length, finite: weights.every(Number.isFinite) },
    state: state ? { sha256: sha256(state), count: state.length } : null,
    left: bytes - start - weights.byteLength - (state?.byteLength ?? 0),
  }),
);
