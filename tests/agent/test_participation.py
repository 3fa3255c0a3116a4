"""One agent against a server that keeps to the protocol, in good times and bad."""

import numpy as np

from tests.agent.conftest import FakeTrainer
from weei_agent.outcomes import Exit


def test_trains_every_round_until_the_job_is_completed(server, run):
    stop, recorder, trainer = run()
    assert stop.code == Exit.COMPLETED
    assert recorder.names() == [
        "invitation", "accepted", "round", "ready",
        "assigned", "trained", "uploaded", "round", "assigned", "trained", "uploaded", "completed",
    ]  # fmt: skip
    assert len(trainer.trained) == 2
    assert server.files[server.weights_sha] == np.full(4, 2, "<f4").tobytes()
    report = {"round": 2, "examplesProcessed": 128, "uniqueExamples": 128, "metrics": {"loss": 0.5}}
    assert ("report", report) in server.log


def test_a_second_start_is_the_same_participant_and_does_not_ask_again(server, run):
    first, *_ = run("--once")
    assert (first.code, server.paused) == (Exit.COMPLETED, True)
    second, recorder, _ = run()
    assert second.code == Exit.COMPLETED
    assert list(server.tokens.values()) == ["peer-0"]
    assert recorder.names()[:2] == ["accepted", "round"]
    assert not server.paused


def test_a_new_peer_is_made_on_demand(server, run):
    run("--once")
    run("--once", "--new-peer")
    assert list(server.tokens.values()) == ["peer-0", "peer-1"]


def test_once_stops_after_one_update_and_frees_what_was_dealt(server, run):
    stop, recorder, _ = run("--once")
    assert stop.message == "Updates delivered: 1, as many as --max-rounds allows."
    assert recorder.names().count("uploaded") == 1
    assert server.log[-1] == "peer/pause"


def test_max_minutes_ends_even_a_training_that_runs(server, run):
    stop, _, trainer = run("--max-minutes", "0.005", trainer=FakeTrainer("hang"))
    assert (stop.code, len(trainer.cancelled)) == (Exit.COMPLETED, 1)
    assert server.paused


def test_an_agent_that_rests_after_an_update_begins_nothing_meanwhile(server, run):
    stop, recorder, _ = run("--rest", "3600", "--max-minutes", "0.02")
    assert (stop.code, recorder.names().count("assigned")) == (Exit.COMPLETED, 1)


def test_snapshots_go_on_above_the_servers_last_and_tell_the_stages(server, run):
    run(trainer=FakeTrainer("slow", "slow"))
    sequences = [snapshot["sequence"] for snapshot in server.snapshots]
    assert sequences[0] > 100
    assert sequences == sorted(set(sequences))
    training = next(snapshot for snapshot in server.snapshots if snapshot["stage"] == "training")
    assert training["execution"] == {
        "requested": "cpu",
        "actual": "cpu",
        "backend": "cpu-wasm",
        "fallbackReason": None,
        "activeWorkers": 1,
        "workerLimit": training["execution"]["workerLimit"],
    }
    assert training["assignment"]["batchSize"] == 16


def test_weights_that_are_not_inline_are_fetched(server, run):
    server.inline, start = False, server.weights_sha
    assert run()[0].code == Exit.COMPLETED
    assert server.log.count(("download", start)) == 1
    assert server.files[server.weights_sha] == np.full(4, 2, "<f4").tobytes()


def test_a_module_in_the_cache_is_not_fetched_again(server, run):
    run("--once")
    run("--once")
    assert server.log.count(("download", server.module_sha)) == 1
