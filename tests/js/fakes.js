/** Fakes that several tests share: a tus server, a websocket, clocks. */
import { createHash } from "node:crypto";

/**
 * What the next request is answered with; without one it succeeds.
 * @typedef {{status?: number, problem?: object, drop?: boolean, hang?: boolean, duplicate?: boolean}} Answer
 */
/** @typedef {{method: string, url: string, bytes: number, sha256: string, headers: Record<string, string>}} Sent */

/** A tus server behind tus-js-client's own request interface: whole uploads, slices and offsets. */
export class FakeTus {
  /** @type {Sent[]} */ log = [];
  #answers;
  #size = 0;
  #offset = 0;
  /** @type {((sent: Sent) => void) | undefined} */ onRequest;

  /** @param {Answer[]} [answers] */
  constructor(answers = []) {
    this.#answers = [...answers];
  }

  getName() {
    return "FakeTus";
  }

  /** @param {string} method @param {string} url */
  createRequest(method, url) {
    /** @type {Record<string, string>} */
    const headers = {};
    /** @type {(bytes: number) => void} */
    let progress = () => {};
    /** @type {(error: Error) => void} */
    let cancel = () => {};
    return {
      getMethod: () => method,
      getURL: () => url,
      setHeader: (/** @type {string} */ name, /** @type {string} */ value) => void (headers[name] = value),
      getHeader: (/** @type {string} */ name) => headers[name],
      setProgressHandler: (/** @type {typeof progress} */ handler) => void (progress = handler),
      send: async (/** @type {Blob | null} */ body) => {
        const bytes = body ? new Uint8Array(await body.arrayBuffer()) : new Uint8Array();
        progress(bytes.length);
        const sent = { method, url, headers, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
        this.log.push(sent);
        this.onRequest?.(sent);
        const answer = this.#answers.shift() ?? {};
        if (answer.hang) await new Promise((_, reject) => void (cancel = reject));
        if (answer.drop) throw new Error("the connection broke");
        return this.#respond(sent, answer);
      },
      abort: async () => cancel(new Error("aborted")),
      getUnderlyingObject: () => null,
    };
  }

  /** @param {Sent} sent @param {Answer} answer */
  #respond(sent, { status, problem, duplicate = false }) {
    const failed = status !== undefined && status >= 400;
    if (!failed) {
      if (sent.method === "POST") [this.#size, this.#offset] = [Number(sent.headers["Upload-Length"]), 0];
      this.#offset += sent.bytes;
    }
    /** @type {Record<string, string>} */
    const headers = {
      Location: "/bytes/uploads/1",
      "Upload-Offset": String(this.#offset),
      "Upload-Length": String(this.#size),
      ...(problem ? { "Content-Type": "application/problem+json" } : {}),
      ...(duplicate ? { "Weei-Duplicate": "true" } : {}),
    };
    const receipt = { sha256: sent.sha256, bytes: sent.bytes, duplicate };
    return {
      getStatus: () => status ?? (sent.method === "POST" ? 201 : sent.method === "HEAD" ? 200 : 204),
      getHeader: (/** @type {string} */ name) => (failed && name !== "Content-Type" ? undefined : headers[name]),
      getBody: () => (problem ? JSON.stringify(problem) : sent.method === "POST" && sent.bytes === this.#size ? JSON.stringify(receipt) : ""),
      getUnderlyingObject: () => null,
    };
  }
}

/** A WebSocket whose other end is the test. */
export class FakeSocket {
  /** @type {FakeSocket[]} */ static all = [];
  /** @type {any[]} */ sent = [];
  /** @type {(() => void) | null} */ onopen = null;
  /** @type {((event: {data: string}) => void) | null} */ onmessage = null;
  /** @type {((event: {code: number}) => void) | null} */ onclose = null;

  /** @param {string} url */
  constructor(url) {
    this.url = url;
    FakeSocket.all.push(this);
  }

  /** @param {string} text */
  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.closed = true;
  }

  static get last() {
    return /** @type {FakeSocket} */ (FakeSocket.all.at(-1));
  }

  /** @param {object} message */
  says(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  open() {
    this.onopen?.();
  }

  /** @param {number} code */
  drop(code) {
    this.onclose?.({ code });
  }
}

/** A clock that stands until it is moved. */
export class FakeClock {
  at = 1_000;

  now = () => this.at;

  /** @param {number} ms */
  move(ms) {
    this.at += ms;
  }
}

/**
 * Wait for what must happen; hashing and Blobs are read by other threads, so no count of turns is enough.
 * @param {() => unknown} condition
 */
export async function until(condition) {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never came true: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Let what waits on nothing but promises run: before saying that something did not happen. */
export async function settled() {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
