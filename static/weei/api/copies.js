/** Copies for listeners, who may do with them what they like. */

/** A shallow copy without some members. @param {Record<string, any>} object @param {string[]} names @returns {any} */
export function without(object, ...names) {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

/**
 * A member that is made when somebody reads it, because most listeners never do. Afterwards it is an ordinary one: it can be changed, listed
 * and cloned.
 * @template {object} T @param {T} object @param {string} name @param {() => unknown} make @returns {T}
 */
export function lazily(object, name, make) {
  const settle = (/** @type {unknown} */ value) => {
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
    return value;
  };
  return Object.defineProperty(object, name, { get: () => settle(make()), set: settle, enumerable: true, configurable: true });
}
