/** Uploads by tus: one POST for small bodies, else slices in order; a problem detail is never tried again. */
import { SLICE_BYTES } from "../protocol.js";
import { Upload } from "../vendor.js";
import { backoffMs } from "./backoff.js";
import { failureOf, Problem, retryAfterMs } from "./http.js";

/** Longer than any lease: the attempt's own end stops the tries. */
const MOST_RETRIES = 10_000;

/** @typedef {import("../vendor.js").TusError} TusError */
/** @typedef {{endpoint: string, headers: Record<string, string>, metadata: Record<string, string>, signal?: AbortSignal,
 *   onProgress?: (sent: number) => void, random?: () => number, httpStack?: unknown}} UploadOptions */

/**
 * @param {TusError} error
 * @returns {{error: Error, retryInMs: number | null}} retryInMs null: final
 */
export function judge(error, attempt = 0, random = Math.random) {
  const response = error.originalResponse;
  // An error in our own code has no request and is not the network's.
  if (!error.originalRequest) return { error, retryInMs: null };
  if (!response || response.getStatus() === 0) return { error, retryInMs: backoffMs(attempt, random) };
  const status = response.getStatus();
  if (status < 400) return { error: new Error(`The server answered ${status} to an upload, but not as tus does: ${error.message}`), retryInMs: null };
  const retryAfter = response.getHeader("Retry-After");
  const failure = failureOf(status, response.getHeader("Content-Type"), retryAfter, response.getBody());
  if (failure instanceof Problem) return { error: failure, retryInMs: null };
  return { error: failure, retryInMs: retryAfterMs(retryAfter) ?? backoffMs(attempt, random) };
}

/** @param {import("../vendor.js").TusResponse} response */
function receipt(response) {
  const duplicate = response.getHeader("Weei-Duplicate") === "true";
  try {
    return { duplicate, .../** @type {object} */ (JSON.parse(response.getBody() || "{}")) };
  } catch {
    return { duplicate };
  }
}

/** @param {Blob} blob @param {UploadOptions} options @returns {Promise<{duplicate: boolean}>} */
function send(blob, { endpoint, headers, metadata, signal, onProgress, random = Math.random, httpStack }) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const retryDelays = new Array(MOST_RETRIES).fill(0);
    const upload = new Upload(blob, {
      endpoint,
      headers,
      metadata,
      retryDelays,
      chunkSize: SLICE_BYTES,
      uploadDataDuringCreation: blob.size <= SLICE_BYTES,
      storeFingerprintForResuming: false,
      ...(httpStack ? { httpStack } : {}),
      onShouldRetry: (error, attempt) => {
        const { retryInMs } = judge(error, attempt, random);
        if (retryInMs === null) return false;
        retryDelays[attempt] = retryInMs;
        return true;
      },
      onProgress: (sent) => onProgress?.(sent),
      onError: (error) => settle(reject, judge(error).error),
      onSuccess: ({ lastResponse }) => settle(resolve, receipt(lastResponse)),
    });
    const stop = () => {
      void upload.abort();
      settle(reject, signal?.reason);
    };
    /** @param {(value: any) => void} done @param {unknown} value */
    const settle = (done, value) => {
      signal?.removeEventListener("abort", stop);
      done(value);
    };
    signal?.addEventListener("abort", stop, { once: true });
    upload.start();
  });
}

/**
 * Send a Blob whole. Bytes that changed on the way are sent again once.
 * @param {Blob} blob
 * @param {number} expected its size when it was made; a Blob that lost its bytes never leaves the page (C65)
 * @param {UploadOptions} options
 */
export async function upload(blob, expected, options) {
  if (blob.size !== expected || expected === 0) throw new Error(`Nothing was sent: the data has ${blob.size} bytes; expected ${expected}.`);
  try {
    return await send(blob, options);
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "hash_mismatch") throw error;
    return send(blob, options);
  }
}
