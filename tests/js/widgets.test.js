import assert from "node:assert/strict";
import { test } from "node:test";

import { Widgets } from "../../static/weei/api/widgets.js";

const training = /** @type {any} */ ({ name: "the API" });

/** @param {{training: boolean, reason: string | null}} site */
function world(site, failures = 0) {
  /** @type {string[]} */
  const log = [];
  const load = async (/** @type {any} */ parts) => {
    log.push(`load ${parts.base}`);
    if (log.length <= failures) throw new Error("no network");
    return { open: () => void log.push("open"), setVisible: (/** @type {boolean} */ visible) => void log.push(`visible ${visible}`) };
  };
  return { log, widgets: new Widgets({ training, site, base: "http://server.test", load }) };
}

test("the API is there without a window, which is loaded once, when it is first opened", async () => {
  const { log, widgets } = world({ training: true, reason: null });
  assert.equal(widgets.get("distributed-training"), training);
  widgets.setVisibility(false);
  assert.deepEqual(log, []);
  await Promise.all([widgets.enable("distributed-training"), widgets.enable("distributed-training")]);
  assert.deepEqual(log, ["load http://server.test", "visible false", "open", "visible false", "open"]);
  widgets.setVisibility(true);
  await Promise.resolve();
  assert.equal(log.at(-1), "visible true");
});

test("a widget that is not enabled for the site or the user is undefined, and enabling it says why", async () => {
  const { log, widgets } = world({ training: false, reason: "Not for alice on https://elsewhere.test." });
  assert.equal(widgets.get("distributed-training"), undefined);
  await assert.rejects(widgets.enable("distributed-training"), /^Error: Not for alice on/);
  await assert.rejects(widgets.enable("recording"), /There is no widget "recording"/);
  assert.deepEqual(log, []);
});

test("a window that could not be loaded is loaded again", async () => {
  const { log, widgets } = world({ training: true, reason: null }, 1);
  await assert.rejects(widgets.enable("distributed-training"), /no network/);
  await widgets.enable("distributed-training");
  assert.deepEqual(log, ["load http://server.test", "load http://server.test", "visible true", "open"]);
});
