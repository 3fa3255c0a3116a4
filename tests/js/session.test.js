import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, test } from "node:test";

import { FakeSocket, FakeTus, settled, until } from "./fakes.js";
import { assignment, DATA, JOB, problem, WEIGHTS, world } from "./world.js";

/** @type {ReturnType<typeof world>[]} */
const worlds = [];
const make = (/** @type {Parameters<typeof world>[0]} */ options = {}) => {
  const made = world(options);
  worlds.push(made);
  return made;
};
afterEach(() => {
  for (const { session } of worlds.splice(0)) session.stop();
});

/** Connected, and in the middle of training. @param {Parameters<typeof world>[0]} [options] */
async function training(options) {
  const here = make(options);
  here.connect();
  here.says({ assignment: assignment() });
  await until(() => here.workers.at(-1)?.received.length);
  const worker = /** @type {any} */ (here.workers.at(-1));
  worker.says("stage", { stage: "training" });
  await until(() => here.stage() === "training");
  return { ...here, worker };
}

test("says hello without a session first, with session and attempt when it comes back", async () => {
  const { session } = await training();
  assert.deepEqual(FakeSocket.last.sent[0], { type: "hello", protocol: 1, token: "secret", train: true });
  session.watch("5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01");
  session.contact.heard();
  const hello = session.hello();
  assert.deepEqual(hello, {
    protocol: 1,
    token: "secret",
    train: true,
    session: 3,
    attemptId: assignment().attemptId,
    watch: "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01",
  });
});

test("a lost socket changes nothing: the running work goes on", async () => {
  const { worker, stage } = await training();
  FakeSocket.last.drop(1006);
  await settled();
  assert.equal(worker.terminated, false);
  assert.equal(stage(), "training");
});

test("fetches, verifies, compiles and tries the module, then says ready", async () => {
  const { connect, says, posted, answers, state, paths, stage, workers } = make();
  answers["/api/v1/peer/ready"] = () => state();
  connect();
  says({ job: { ...JOB, ready: false, state: "approved" } });
  await until(() => posted("/api/v1/peer/ready").length && stage() === "waiting");
  assert.deepEqual(posted("/api/v1/peer/ready")[0]?.body, { jobId: JOB.id, moduleSha256: JOB.module.sha256, auxiliary: {}, workers: 2 });
  assert.deepEqual(paths(), [`/bytes/jobs/${JOB.id}/${JOB.module.sha256}`, "/api/v1/peer/ready"]);
  assert.equal(workers[0]?.received[0].type, "inspect");
  assert.equal(stage(), "waiting");
});

test("a module that does not fit this device is reported at once, and not tried again by itself (C62)", async () => {
  const here = make();
  here.answers["/api/v1/peer/load-failed"] = () => here.state({ job: { ...JOB, ready: false, state: "modelLoadFailed" } });
  here.connect();
  here.bytes.clear();
  here.says({ job: { ...JOB, ready: false } });
  await until(() => here.posted("/api/v1/peer/load-failed").length);
  assert.match(here.posted("/api/v1/peer/load-failed")[0]?.body.reason, /\S/);
  assert.equal(here.stage(), "error");
  here.says({ job: { ...JOB, ready: false } });
  await settled();
  assert.equal(here.posted("/api/v1/peer/load-failed").length, 1);
});

test("trains an assignment and uploads the update with its report", async () => {
  const { worker, tus, stage, session } = await training();
  const { inputs } = worker.received[0];
  assert.equal(inputs.work.settings, assignment().settings);
  assert.equal(inputs.work.seed, "18446744073709551615");
  assert.deepEqual(new Uint8Array(await inputs.data.arrayBuffer()), DATA);
  worker.says("progress", { report: { processedExamples: 11, totalExamples: 22 } });
  await until(() => session.state().participation.processedExamples === 11);
  worker.finish();
  await until(() => stage() === "awaitingAggregation");
  const [sent] = tus.log;
  assert.equal(sent?.bytes, 16);
  const metadata = Object.fromEntries(
    String(sent?.headers["Upload-Metadata"])
      .split(",")
      .map((pair) => pair.split(" "))
      .map(([key, value]) => [key, Buffer.from(String(value), "base64").toString()]),
  );
  assert.deepEqual({ ...metadata, report: JSON.parse(String(metadata.report)) }, {
    kind: "update",
    attempt: assignment().attemptId,
    sha256: createHash("sha256").update(WEIGHTS).digest("hex"),
    report: { round: 4, examplesProcessed: 22, uniqueExamples: 11, metrics: { loss: 0.5 } },
  });
  const { timings } = /** @type {any} */ (session.state().snapshot);
  assert.ok(timings.trainingMs !== null && timings.uploadMs !== null);
});

test("an older message that still names a received attempt does not start it again (C24)", async () => {
  const { worker, workers, says, tus, stage } = await training();
  worker.finish();
  await until(() => stage() === "awaitingAggregation");
  says({ assignment: assignment() });
  await settled();
  assert.equal(tus.log.length, 1);
  assert.equal(workers.flatMap(({ received }) => received).length, 1);
});

test("another attempt ends the running Worker and starts anew", async () => {
  const { worker, workers, says } = await training();
  says({ assignment: assignment({ attemptId: "11111111-1111-4111-8111-111111111111", round: 5 }) });
  await until(() => workers[1]?.received.length);
  assert.equal(worker.terminated, true);
  assert.equal(workers.length, 2);
  assert.equal(workers[1]?.received[0].inputs.work.round, 5);
});

for (const [who, change] of /** @type {const} */ ([["this person", { pausedByPeer: true }], ["the coordinator", { pausedByCoordinator: true }]])) {
  test(`a pause by ${who} ends the Worker at once`, async () => {
    const { worker, says, stage } = await training();
    says({ job: { ...JOB, ...change }, assignment: assignment() });
    await settled();
    assert.equal(worker.terminated, true);
    assert.equal(stage(), "waiting");
  });
}

test("pausing here ends the Worker before the server is asked", async () => {
  const { worker, session, answers, state } = await training();
  answers["/api/v1/peer/pause"] = () => {
    assert.equal(worker.terminated, true);
    return state({ job: { ...JOB, pausedByPeer: true } });
  };
  await session.setPaused(true);
  assert.equal(session.state().participation.paused, true);
});

test("a newer tab ends the Workers here; this one watches on and may take over again", async () => {
  const { worker, session, welcome, says } = await training();
  const before = FakeSocket.all.length;
  FakeSocket.last.drop(4001);
  assert.equal(worker.terminated, true);
  assert.equal(FakeSocket.all.length, before + 1);
  FakeSocket.last.open();
  assert.deepEqual(FakeSocket.last.sent[0], { type: "hello", protocol: 1, token: "secret", train: false });
  welcome();
  says({ assignment: assignment() });
  await settled();
  assert.equal(session.state().participation.replaced, true);
  assert.equal(session.state().activeWorkers, 0);
  session.trainHere();
  FakeSocket.last.open();
  assert.deepEqual(FakeSocket.last.sent[0], { type: "hello", protocol: 1, token: "secret", train: true });
  welcome({ session: 9 });
  says({ assignment: assignment() });
  await until(() => session.state().activeWorkers === 1);
  assert.equal(session.state().participation.replaced, false);
});

test("a page that only watches trains nothing", async () => {
  const { connect, says, workers } = make({ train: false });
  connect();
  says({ assignment: assignment() });
  await settled();
  assert.equal(workers.length, 0);
});

test("a failed assignment is reported with its reason", async () => {
  const { worker, posted, stage, answers, state, session } = await training();
  const path = `/api/v1/peer/attempts/${assignment().attemptId}/failed`;
  answers[path] = () => state();
  worker.says("failed", { code: "trap", message: "train failed in module plus-one: unreachable" });
  await until(() => posted(path).length);
  assert.deepEqual(posted(path)[0]?.body, { reason: "train failed in module plus-one: unreachable" });
  assert.equal(stage(), "error");
  assert.match(String(session.state().participation.error), /unreachable/);
});

test("a chunk that comes wrong twice is reported and not trained (C49)", async () => {
  const { connect, says, bytes, posted, answers, state, workers, calls } = make();
  const data = assignment().data;
  bytes.set(data.sha256, new TextEncoder().encode("eleven dato"));
  const path = `/api/v1/peer/attempts/${assignment().attemptId}/failed`;
  answers[path] = () => state();
  connect();
  says({ assignment: assignment() });
  await until(() => posted(path).length);
  assert.equal(calls.filter((call) => call.path.endsWith(data.sha256)).length, 2);
  assert.match(posted(path)[0]?.body.reason, new RegExp(data.sha256));
  assert.equal(workers.length, 0);
});

test("an attempt that is over is not sent again: the state is asked for at once", async () => {
  const tus = new FakeTus([{ status: 409, problem: { title: "Over.", code: "stale_attempt", round: 5 } }]);
  const { worker, answers, state, paths, posted } = await training({ tus });
  answers["/api/v1/peer/state"] = () => state();
  worker.finish();
  await until(() => paths().includes("/api/v1/peer/state"));
  assert.equal(tus.log.length, 1);
  assert.equal(posted(`/api/v1/peer/attempts/${assignment().attemptId}/failed`).length, 0);
});

test("an update that the server refused as invalid is shown, and not reported once more", async () => {
  const tus = new FakeTus([{ status: 422, problem: { title: "The update holds NaN.", code: "non_finite" } }]);
  const { worker, answers, state, session, posted } = await training({ tus });
  answers["/api/v1/peer/state"] = () => state();
  worker.finish();
  await until(() => session.state().participation.error);
  assert.match(String(session.state().participation.error), /NaN/);
  assert.equal(posted(`/api/v1/peer/attempts/${assignment().attemptId}/failed`).length, 0);
});

test("the next assignment is not held up by a receipt that is still on its way", async () => {
  const tus = new FakeTus([{ hang: true }]);
  const { worker, says, workers } = await training({ tus });
  worker.finish();
  await until(() => tus.log.length);
  says({ assignment: assignment({ attemptId: "22222222-2222-4222-8222-222222222222", round: 5 }) });
  const started = () => workers.flatMap(({ received }) => received).map(({ inputs }) => inputs.work.round);
  await until(() => started().length > 1);
  assert.deepEqual(started(), [4, 5]);
});

test("asks before it works on what may have expired (C30, C75)", async () => {
  const { connect, says, answers, state, workers, clock, paths } = make();
  answers["/api/v1/peer/state"] = () => state({ assignment: null });
  connect();
  answers[`/bytes/jobs/${JOB.id}/${assignment().data.sha256}`] = () => {
    clock.move(3_600_000); // the machine slept while the chunk came
    return new Response(DATA);
  };
  says({ assignment: assignment() });
  await until(() => paths().includes("/api/v1/peer/state"));
  await settled();
  assert.equal(workers.length, 0);
});

test("an answer that a newer message overtook is not applied", async () => {
  const { connect, says, answers, state, session } = make();
  /** @type {(value: unknown) => void} */
  let answer = () => {};
  answers["/api/v1/peer/state"] = () => new Promise((resolve) => void (answer = resolve));
  connect();
  const polled = session.poll();
  await settled();
  says({ assignment: assignment() });
  answer(state({ assignment: null }));
  await polled;
  await until(() => session.state().activeWorkers === 1);
});

test("snapshots go on above the server's last number", async () => {
  const { connect, welcome, says, session } = make();
  connect();
  welcome({ sequence: 500 });
  says({});
  await settled();
  assert.ok(Number(session.state().snapshot?.sequence) > 500);
});

test("a token that the server does not know ends the session with a sentence", async () => {
  const { connect, session, answers } = make();
  answers["/api/v1/peer/state"] = () => problem(401, "unauthorized");
  connect();
  await session.poll();
  assert.equal(session.state().sessionState, "signedOut");
  assert.match(String(session.state().participation.error), /invitation/);
});

test("a server of another protocol version asks for a reload", () => {
  const { connect, session } = make();
  connect();
  FakeSocket.last.drop(4009);
  assert.equal(session.state().sessionState, "outdated");
  assert.match(String(session.state().participation.error), /Reload/);
});

test("a job chosen between hello and welcome is watched all the same", () => {
  const { session, welcome } = make();
  session.start();
  FakeSocket.last.open();
  session.watch("5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01");
  assert.equal(FakeSocket.last.sent.length, 1);
  welcome();
  assert.deepEqual(FakeSocket.last.sent[1], { type: "watch", jobId: "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01" });
});

test("a job's last update leaves nothing to wait for", async () => {
  const { worker, says, stage } = await training();
  worker.finish();
  await until(() => stage() === "awaitingAggregation");
  says({ job: JOB });
  assert.equal(stage(), "awaitingAggregation");
  says({ job: { ...JOB, status: "completed" } });
  assert.equal(stage(), "waiting");
});

test("coordinators are told to look again, and everything after a reconnection", () => {
  const { session, hints, connect, welcome } = make();
  session.watch("5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01");
  connect();
  FakeSocket.last.says({ type: "job", jobId: JOB.id, what: ["round"] });
  welcome();
  assert.deepEqual(hints, [[JOB.id, ["everything"]], [JOB.id, ["round"]], [JOB.id, ["everything"]]]);
});
