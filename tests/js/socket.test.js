import assert from "node:assert/strict";
import { test } from "node:test";

import { PeerSocket } from "../../static/weei/net/socket.js";
import { FakeSocket } from "./fakes.js";

const WELCOME = { type: "welcome", protocol: 1, peerId: "me", session: 1, sequence: 0, heartbeatSeconds: 5, pollSeconds: 10 };

/** @param {import("node:test").TestContext} context */
function open(context) {
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  /** @type {any[]} */
  const told = [];
  const delegate = {
    hello: () => ({ protocol: 1, token: "t", train: true }),
    socketMessage: (/** @type {any} */ message) => void told.push(message.type),
    socketDown: () => void told.push("down"),
    socketRefused: (/** @type {string} */ reason) => void told.push(reason),
  };
  const socket = new PeerSocket({ url: "ws://server.test/ws/peer", delegate, WebSocket: /** @type {any} */ (FakeSocket), random: () => 1 });
  socket.start();
  FakeSocket.last.open();
  return { socket, told, tick: (/** @type {number} */ ms) => context.mock.timers.tick(ms) };
}
const beats = () => FakeSocket.last.sent.filter(({ type }) => type === "heartbeat").length;

test("a heartbeat goes every five seconds for five minutes, whatever the page's timers do (C64)", (context) => {
  const { tick } = open(context);
  FakeSocket.last.says(WELCOME);
  for (let second = 0; second < 300; second += 1) tick(1000);
  assert.equal(beats(), 60);
});

test("another message counts as a heartbeat", (context) => {
  const { socket, tick } = open(context);
  FakeSocket.last.says(WELCOME);
  assert.equal(socket.send({ type: "watch", jobId: null }), true);
  tick(5000);
  assert.equal(beats(), 0);
  tick(5000);
  assert.equal(beats(), 1);
});

test("nothing but hello is said before the welcome", (context) => {
  const { socket } = open(context);
  assert.equal(socket.send({ type: "heartbeat" }), false);
  assert.deepEqual(FakeSocket.last.sent.map(({ type }) => type), ["hello"]);
});

test("frames that do not fit are ignored, and the socket stays (C81)", (context) => {
  const { told } = open(context);
  for (const data of ["{", "[]", '{"type":"nope"}', new ArrayBuffer(4)]) FakeSocket.last.onmessage?.({ data: /** @type {any} */ (data) });
  assert.deepEqual(told, []);
});

test("comes back by itself: within half a second, then doubling, and anew after a welcome", (context) => {
  const { tick } = open(context);
  const made = () => FakeSocket.all.length;
  for (const wait of [500, 1000, 2000]) {
    const before = made();
    FakeSocket.last.drop(1006);
    tick(wait - 1);
    assert.equal(made(), before);
    tick(1);
    assert.equal(made(), before + 1);
  }
  FakeSocket.last.open();
  FakeSocket.last.says(WELCOME);
  const before = made();
  FakeSocket.last.drop(1012);
  tick(500);
  assert.equal(made(), before + 1);
});

for (const [code, reason] of /** @type {const} */ ([[4001, "replaced"], [4003, "unauthorized"], [4009, "protocol"]])) {
  test(`close code ${code} is final: ${reason}`, (context) => {
    const { told, tick } = open(context);
    const before = FakeSocket.all.length;
    FakeSocket.last.drop(code);
    tick(60_000);
    assert.deepEqual(told, [reason]);
    assert.equal(FakeSocket.all.length, before);
  });
}

test("stopped means stopped", (context) => {
  const { socket, tick, told } = open(context);
  const last = FakeSocket.last;
  socket.stop();
  last.drop(1006);
  tick(60_000);
  assert.equal(FakeSocket.last, last);
  assert.deepEqual(told, []);
});
