/** How long to wait before trying again. */

const FIRST_MS = 500;
const LAST_MS = 30_000;

/**
 * Full jitter: the first retry within half a second, the cap doubling to 30 s, so that peers do not return all at once.
 * @param {number} attempt counts from 0
 * @param {() => number} [random]
 */
export function backoffMs(attempt, random = Math.random) {
  return random() * Math.min(LAST_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
