// Stands in for static/weei/weei.js in page tests and screenshots: a state to show, and a list of the calls made.
const state = globalThis.fakeState ?? {};
/** @type {Array<(state: any) => void>} */
const listeners = [];
const calls = (globalThis.fakeCalls = []);
const handlers = globalThis.fakeHandlers ?? {};
const api = new Proxy(
  {
    getState: () => structuredClone(state),
    subscribe(listener) {
      listeners.push(listener);
      listener(structuredClone(state));
      return () => {};
    },
  },
  {
    get: (target, name) =>
      // Without `then`, or awaiting the object would call it.
      name === "then"
        ? undefined
        : (target[name] ??
          ((...given) => {
            calls.push([name, ...given]);
            return handlers[name] ? handlers[name](...given) : Promise.resolve();
          })),
  },
);
globalThis.fakeChange = (change) => {
  Object.assign(state, change);
  for (const listener of listeners) listener(structuredClone(state));
};
export const loadWeei = async () => ({ widgetsApi: { get: () => api } });
globalThis.weeiReady = loadWeei();
