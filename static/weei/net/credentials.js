/** Who asks, as headers: a device, a person on another site's page, or both (docs/protocol.md). */

/**
 * `Authorization` holds one token: where it is the person's, the device's stands beside it.
 * @param {{token: string} | null} peer @param {string | null} [user] the token that the person gave to this page
 * @returns {Record<string, string>}
 */
export function credentials(peer, user) {
  if (!user) return peer ? { Authorization: `Bearer ${peer.token}` } : {};
  return { Authorization: `Bearer ${user}`, ...(peer ? { "Weei-Peer": peer.token } : {}) };
}
