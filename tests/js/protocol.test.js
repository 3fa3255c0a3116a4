import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Client, InvalidMessage, Server, clientMessage, parseClientMessage, parseServerMessage } from "../../static/weei/protocol.js";

const golden = JSON.parse(readFileSync(new URL("../golden/messages.json", import.meta.url), "utf8"));

test("both sides have exactly the golden messages", () => {
  const types = (/** @type {{type: string}[]} */ list) => [...new Set(list.map((message) => message.type))];
  assert.deepEqual(types(golden.client), Object.values(Client));
  assert.deepEqual(types(golden.server), Object.values(Server));
});

test("accepts every golden message as it stands", () => {
  for (const message of golden.client) assert.deepEqual(parseClientMessage(JSON.stringify(message)), message);
  for (const message of golden.server) assert.deepEqual(parseServerMessage(JSON.stringify(message)), message);
});

test("refuses golden messages with a missing, an unknown or a mistyped field, naming it", () => {
  for (const [side, guard] of /** @type {const} */ ([["client", parseClientMessage], ["server", parseServerMessage]])) {
    for (const message of golden[side]) {
      assert.throws(() => guard(JSON.stringify({ ...message, extra: 1 })), { name: "InvalidMessage", field: "extra" });
      for (const name of Object.keys(message).filter((key) => key !== "type")) {
        const wrong = JSON.stringify({ ...message, [name]: name === "what" ? [1] : () => 1 });
        const optional = ["session", "attemptId", "watch", "re"].includes(name) && message.type !== "welcome" && message.type !== "state";
        if (!optional) assert.throws(() => guard(wrong), { field: name }, `${message.type}.${name} missing`);
        assert.throws(() => guard(JSON.stringify({ ...message, [name]: [[1]] })), { field: name }, `${message.type}.${name} mistyped`);
      }
    }
  }
});

test("refuses frames that are no message (C81)", () => {
  for (const text of ["{", "[]", '"x"', '{"type":1}', '{"type":"constructor"}', '{"type":"hello2"}', "null"]) {
    assert.throws(() => parseServerMessage(text), InvalidMessage, text);
  }
  assert.throws(() => parseServerMessage(/** @type {any} */ (new ArrayBuffer(2))), InvalidMessage);
});

test("a message of ours is checked before it is sent", () => {
  assert.equal(clientMessage({ type: "heartbeat" }), '{"type":"heartbeat"}');
  assert.throws(() => clientMessage({ type: "watch", jobId: "7" }), { field: "jobId" });
});
