/** This browser as a guest peer: asked for once, remembered, thrown away when the server does not know it any more. */
import { credentials } from "../net/credentials.js";

/** @typedef {{peerId: string, token: string}} Peer */

export class PeerIdentity {
  /** @type {Promise<Peer> | null} */ #asking = null;
  #storage;
  #http;
  #connect;

  /**
   * @param {{storage: import("./storage.js").DeviceStorage, http: import("../net/http.js").Http, connect: (peer: Peer) => Promise<void>}} options
   */
  constructor({ storage, http, connect }) {
    this.#storage = storage;
    this.#http = http;
    this.#connect = connect;
  }

  /** @returns {Peer | null} */
  known() {
    return this.#storage.peer();
  }

  /** @returns {Record<string, string>} */
  headers() {
    return credentials(this.known(), this.#storage.user());
  }

  /** @returns {Promise<Peer>} */
  ensure() {
    const peer = this.known();
    if (peer) return Promise.resolve(peer);
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  forget() {
    this.#storage.setPeer(null);
  }

  /**
   * An action of the person that needs a peer. A token that the server has forgotten is replaced once.
   * @template T @param {() => Promise<T>} action @returns {Promise<T>}
   */
  async as(action) {
    await this.ensure();
    try {
      return await action();
    } catch (error) {
      if (/** @type {{code?: unknown}} */ (error)?.code !== "unauthorized") throw error;
      this.forget();
      await this.ensure();
      return action();
    }
  }

  async #ask() {
    const peer = await this.#http.json("POST", "/api/v1/peers", {});
    this.#storage.setPeer(peer);
    await this.#connect(peer);
    return peer;
  }
}
