/** SHA-256 that works on plain http too, where `crypto.subtle` does not exist (C66). */
import { createSHA256 } from "./vendor.js";

/** The native digest needs the whole file in memory; above this size it is hashed in pieces. */
const NATIVE_BYTES = 64 * 1024 * 1024;
const PIECE_BYTES = 4 * 1024 * 1024;

/** @param {ArrayBuffer} buffer */
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** A digest that is fed piece by piece. */
export async function streamingSha256() {
  const hasher = await createSHA256();
  hasher.init();
  return hasher;
}

/**
 * @param {Blob} blob
 * @param {{onProgress?: (bytes: number) => void, signal?: AbortSignal, subtle?: SubtleCrypto | undefined}} [options]
 * @returns {Promise<string>} lower-case hex
 */
export async function sha256(blob, { onProgress, signal, subtle = globalThis.crypto?.subtle } = {}) {
  if (subtle && blob.size <= NATIVE_BYTES) {
    const digest = await subtle.digest("SHA-256", await blob.arrayBuffer());
    onProgress?.(blob.size);
    return hex(digest);
  }
  const hasher = await streamingSha256();
  for (let at = 0; at < blob.size; at += PIECE_BYTES) {
    signal?.throwIfAborted();
    hasher.update(new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer()));
    onProgress?.(Math.min(at + PIECE_BYTES, blob.size));
  }
  return hasher.digest("hex");
}
