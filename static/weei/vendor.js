/** The vendored libraries as modules: two of them are UMD and set a global when imported. */
import "../vendor/hash-wasm-sha256-4.13.0.umd.min.js";
import "../vendor/tus-4.3.1.min.js";

/** @typedef {{init(): Hasher, update(data: Uint8Array): Hasher, digest(form: "hex"): string}} Hasher */
/** @typedef {{getStatus(): number, getHeader(name: string): string | undefined, getBody(): string}} TusResponse */
/** @typedef {Error & {originalRequest?: object | null, originalResponse?: TusResponse | null, causingError?: Error | null}} TusError */
/**
 * The options of tus-js-client that are used here.
 * @typedef {{endpoint: string, metadata: Record<string, string>, headers: Record<string, string>, chunkSize: number,
 *   uploadDataDuringCreation: boolean, retryDelays: number[], storeFingerprintForResuming: boolean, httpStack?: unknown,
 *   onShouldRetry: (error: TusError, attempt: number) => boolean, onProgress: (sent: number, total: number) => void,
 *   onError: (error: TusError) => void, onSuccess: (payload: {lastResponse: TusResponse}) => void}} TusOptions
 */
/** @typedef {{start(): void, abort(): Promise<void>}} TusUpload */

const globals = /** @type {{hashwasm: {createSHA256(): Promise<Hasher>}, tus: {Upload: new (file: Blob, options: TusOptions) => TusUpload}}} */ (
  /** @type {unknown} */ (globalThis)
);

export const createSHA256 = globals.hashwasm.createSHA256;
export const Upload = globals.tus.Upload;
