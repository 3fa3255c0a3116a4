/** The peer's websocket: says hello, keeps the lease with heartbeats, and comes back by itself. */
import { Client, clientMessage, Close, HEARTBEAT_SECONDS, parseServerMessage, Server } from "../protocol.js";
import { backoffMs } from "./backoff.js";

/**
 * @typedef {{
 *   hello(): Record<string, unknown>,
 *   socketMessage(message: import("../types.js").ServerMessage): void,
 *   socketDown(): void,
 *   socketRefused(reason: "replaced" | "unauthorized" | "protocol"): void,
 * }} SocketDelegate
 */

/** @type {Record<number, "replaced" | "unauthorized" | "protocol">} close codes after which the same hello is useless */
const FINAL = { [Close.replaced]: "replaced", [Close.unauthorized]: "unauthorized", [Close.protocol]: "protocol" };

export class PeerSocket {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #retry;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #beat;
  #attempt = 0;
  #sent = false;
  #welcomed = false;
  #options;

  /** @param {{url: string, delegate: SocketDelegate, WebSocket?: typeof globalThis.WebSocket, random?: () => number}} options */
  constructor(options) {
    this.#options = { WebSocket: globalThis.WebSocket, random: Math.random, ...options };
  }

  get connected() {
    return this.#welcomed;
  }

  start() {
    if (this.#socket || this.#retry) return;
    const socket = new this.#options.WebSocket(this.#options.url);
    this.#socket = socket;
    const mine = () => this.#socket === socket;
    socket.onopen = () => mine() && socket.send(clientMessage({ type: Client.hello, ...this.#options.delegate.hello() }));
    socket.onmessage = (event) => mine() && this.#receive(event.data);
    socket.onclose = (event) => mine() && this.#closed(event.code);
  }

  stop() {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const socket = this.#socket;
    this.#down();
    socket?.close(1000);
  }

  /** Say hello anew, now: what this peer wants has changed, or the connection may be dead. */
  restart() {
    this.stop();
    this.#attempt = 0;
    this.start();
  }

  /** @param {{type: string} & Record<string, unknown>} message @returns {boolean} whether it could be sent */
  send(message) {
    if (!this.#welcomed || !this.#socket) return false;
    this.#socket.send(clientMessage(message));
    this.#sent = true;
    return true;
  }

  /** @param {unknown} data */
  #receive(data) {
    let message;
    try {
      message = parseServerMessage(/** @type {string} */ (data));
    } catch {
      // A frame that does not fit is a hint lost; the poll fetches what it would have said.
      return;
    }
    if (message.type === Server.welcome) {
      this.#welcomed = true;
      this.#attempt = 0;
      this.#beats(message.heartbeatSeconds || HEARTBEAT_SECONDS);
    }
    this.#options.delegate.socketMessage(message);
  }

  /** @param {number} seconds */
  #beats(seconds) {
    clearInterval(this.#beat);
    this.#beat = setInterval(() => {
      // Every other message counts as a heartbeat too.
      if (!this.#sent) this.send({ type: Client.heartbeat });
      this.#sent = false;
    }, seconds * 1000);
  }

  /** @param {number} code */
  #closed(code) {
    this.#down();
    const reason = FINAL[code];
    if (reason) return this.#options.delegate.socketRefused(reason);
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.start();
    }, backoffMs(this.#attempt, this.#options.random));
    this.#attempt += 1;
    this.#options.delegate.socketDown();
  }

  #down() {
    clearInterval(this.#beat);
    this.#socket = null;
    this.#welcomed = false;
    this.#sent = false;
  }
}
