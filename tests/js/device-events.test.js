import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { DeviceEvents } from "../../static/weei/training/events.js";
import { FakeClock, FakeSocket, settled, until } from "./fakes.js";
import { assignment, JOB, problem, world } from "./world.js";

const { attemptId, chunkId, exampleCount, round, weights } = assignment();
const WORK = { jobId: JOB.id, round };

/** @type {ReturnType<typeof world>[]} */
const worlds = [];
afterEach(() => {
  for (const { session } of worlds.splice(0)) session.stop();
});

/** Connected, and in the middle of training. */
async function training() {
  const here = world();
  worlds.push(here);
  here.connect();
  here.says({ assignment: assignment() });
  await until(() => here.workers.at(-1)?.received.length);
  const worker = /** @type {any} */ (here.workers.at(-1));
  worker.says("stage", { stage: "training" });
  await until(() => here.stage() === "training");
  const told = (/** @type {string} */ name) => here.logged.filter(({ event }) => event === name).map(({ details }) => details);
  return { ...here, worker, told };
}

test("a phase is as long as the clock says, and belongs to the work in which it ended", () => {
  const clock = new FakeClock();
  /** @type {any[]} */
  const told = [];
  /** @type {{jobId: string, round: number} | null} */
  let about = null;
  const events = new DeviceEvents({ now: clock.now, wall: () => 5_000, told: (...all) => told.push(all), about: () => about });
  const finished = events.began("transfer");
  clock.move(12.34);
  about = { jobId: "a", round: 3 };
  finished({ bytes: 7 });
  assert.deepEqual(told, [["phase.finished", { jobId: "a", round: 3, phase: "transfer", ms: 12.3, bytes: 7 }, 5_000]]);
});

test("an assignment tells its transfers, stages, training and receipt, in order, and no contents", async () => {
  const { clock, worker, logged, told, stage } = await training();
  clock.move(250);
  worker.finish();
  await until(() => stage() === "awaitingAggregation");
  await settled();
  assert.equal(logged[0]?.event, "connection.made");
  assert.deepEqual(told("assignment.received"), [{ ...WORK, attemptId, chunkId, exampleCount }]);
  assert.deepEqual(told("assignment.uploaded"), [{ ...WORK, attemptId }]);
  const phases = told("phase.finished");
  assert.deepEqual(
    phases.map(({ phase, direction }) => [phase, direction]),
    [
      ["transfer", "receive"],
      ["indexeddb.save", undefined],
      ["transfer", "receive"],
      ["indexeddb.save", undefined],
      ["training", undefined],
      ["transfer", "send"],
    ],
  );
  assert.deepEqual(phases.find(({ phase }) => phase === "training"), { ...WORK, phase: "training", ms: 250 });
  for (const { jobId, round: of } of phases) assert.deepEqual({ jobId, round: of }, WORK);
  const stages = told("stage.changed").map((details) => details.stage);
  assert.deepEqual([stages[0], ...stages.slice(-4)], ["receiving", "preparing", "training", "uploading", "awaitingAggregation"]);
  const text = JSON.stringify(logged);
  assert.ok(!text.includes("secret") && !text.includes(/** @type {string} */ (weights.inline)), text);
});

test("what is taken away is told with its reason, and not as trained", async () => {
  const { session, answers, state, told } = await training();
  answers["/api/v1/peer/pause"] = () => state();
  await session.setPaused(true);
  assert.deepEqual(told("assignment.dropped"), [{ ...WORK, attemptId, reason: "The contribution was paused." }]);
  assert.ok(!told("phase.finished").some(({ phase }) => phase === "training"));
});

test("errors, failed transfers and lost connections are told", async () => {
  const { worker, answers, state, told } = await training();
  answers[`/api/v1/peer/attempts/${attemptId}/failed`] = () => state();
  worker.says("failed", { code: "trap", message: "The module trapped." });
  await until(() => told("error").length);
  assert.deepEqual(told("error"), [{ ...WORK, message: "The module trapped." }]);
  FakeSocket.last.drop(1006);
  assert.equal(told("connection.lost").length, 1);
  const refused = world();
  worlds.push(refused);
  refused.answers[`/bytes/jobs/${JOB.id}/${JOB.module.sha256}`] = () => problem(404, "not_found");
  refused.connect();
  refused.says({ assignment: assignment() });
  await until(() => refused.logged.some(({ event }) => event === "transfer.failed"));
  const failed = refused.logged.find(({ event }) => event === "transfer.failed")?.details;
  assert.deepEqual(failed, { ...WORK, artifactId: JOB.module.sha256, message: "Refused: not_found." });
});

test("a socket that never opened was not lost", () => {
  const here = world();
  worlds.push(here);
  here.session.start();
  FakeSocket.last.drop(1006);
  assert.deepEqual(here.logged.map(({ event }) => event), []);
});
