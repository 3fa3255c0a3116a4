"""What goes wrong on the way, and what the agent makes of it."""

import numpy as np
import pytest

from tests.agent.conftest import QUICK, FakeTrainer
from tests.agent.fake_server import Refusal
from weei_agent.connection import Timing
from weei_agent.outcomes import Exit
from weei_client import tus
from weei_core import protocol
from weei_core.errors import ModelError

TWO_ROUNDS = np.full(4, 2, "<f4").tobytes()


def test_a_socket_cut_while_training_costs_nothing(server, run):
    """C25: the attempt is named in the next hello, and kept."""
    server.on("stage training", server.close_sockets)
    stop, recorder, trainer = run(trainer=FakeTrainer("slow"))
    assert stop.code == Exit.COMPLETED
    assert len(server.hellos) >= 2
    assert server.hellos[1].session == 1
    assert str(server.hellos[1].attemptId) == trainer.trained[0]
    assert trainer.cancelled == []


def test_trains_on_by_polling_when_there_is_no_websocket(server, run):
    server.sockets_allowed = False
    stop, recorder, trainer = run()
    assert (stop.code, len(trainer.trained)) == (Exit.COMPLETED, 2)


def test_an_upload_whose_answer_is_lost_is_sent_again_and_counts_once(server, run):
    """C24: the repeat is a success marked duplicate."""
    server.cut_uploads = 1
    stop, recorder, _ = run()
    assert stop.code == Exit.COMPLETED
    assert [entry for entry in server.log if entry[0] == "uploaded"] == [
        ("uploaded", False),
        ("uploaded", True),
        ("uploaded", False),
    ]
    assert server.files[server.weights_sha] == TWO_ROUNDS


def test_large_updates_go_on_from_where_they_were_cut(server, run, monkeypatch):
    monkeypatch.setattr(tus, "SLICE_BYTES", 6)
    server.lose_slices = 1
    stop, *_ = run()
    assert stop.code == Exit.COMPLETED
    assert server.files[server.weights_sha] == TWO_ROUNDS
    assert any(offset % 6 for offset in [len(data) for _, _, data in server.uploads.values()])


def test_a_busy_server_is_asked_again_after_the_time_it_names(server, run):
    server.busy_uploads = 2
    assert run()[0].code == Exit.COMPLETED


def test_bytes_that_changed_on_the_way_up_are_sent_again_once(server, run):
    server.refuse_upload = Refusal(422, "hash_mismatch", "Other bytes came.")
    assert run()[0].code == Exit.COMPLETED
    assert server.failures == []


def test_an_update_that_the_server_refuses_is_not_sent_again(server, run):
    server.refuse_upload = Refusal(422, "non_finite", "The update holds NaN.")
    stop, recorder, _ = run()
    assert stop.code == Exit.COMPLETED
    # This server still names the attempt, so the agent ends it.
    assert server.failures == ["The update holds NaN."]


def test_training_is_stopped_when_its_attempt_is_given_to_another(server, run):
    """C30: the child is stopped; the new attempt is trained."""

    def give_away():
        server.deal()
        server.tell()

    server.on("stage training", give_away)
    stop, recorder, trainer = run(trainer=FakeTrainer("slow"))
    assert stop.code == Exit.COMPLETED
    assert len(trainer.cancelled) == 1
    assert trainer.cancelled[0] not in trainer.trained
    assert "dropped" in recorder.names()


def test_a_stale_update_is_dropped_and_the_next_work_taken(server, run):
    server.refuse_upload = Refusal(409, "stale_attempt", "This attempt is over.")
    server.on("refused upload", server.deal)
    stop, recorder, trainer = run()
    assert stop.code == Exit.COMPLETED
    assert recorder.names().count("dropped") == 1
    assert len(trainer.trained) == 3
    assert server.failures == []


def test_after_a_long_silence_it_asks_before_it_works(server, run):
    """C30: with a lease shorter than any silence, every assignment is asked about first."""
    timing = Timing(**{**vars(QUICK), "lease": -1.0, "poll": 60.0})
    stop, *_ = run(timing=timing)
    assert stop.code == Exit.COMPLETED
    assert server.log.count("peer/state") >= 2


def test_a_chunk_damaged_once_is_fetched_again(server, run):
    """C49."""
    server.corrupt[server.chunks[0]] = 1
    stop, recorder, trainer = run()
    assert (stop.code, server.failures) == (Exit.COMPLETED, [])
    assert server.log.count(("download", server.chunks[0])) == 2


def test_a_chunk_damaged_twice_is_reported_by_name_and_not_trained(server, run):
    """C49."""
    server.corrupt[server.chunks[0]] = 2
    stop, recorder, trainer = run()
    assert stop.code == Exit.COMPLETED
    expected = f"Chunk chunk-1 arrived damaged twice; its SHA-256 should be {server.chunks[0]}."
    assert server.failures == [expected]
    assert recorder.last("failed")["reason"] == expected
    assert len(trainer.trained) == 2


def test_a_download_that_breaks_off_goes_on_where_it_was(server, run):
    server.cut_downloads = 1
    assert run()[0].code == Exit.COMPLETED
    assert len(server.module) // 2 in server.ranges


@pytest.mark.parametrize(
    ("step", "reason"),
    [("trap", "train trapped: unreachable."), ("nan", "The trained weights must hold finite numbers only")],
)
def test_work_that_ends_in_an_error_is_reported_and_dealt_again(server, run, step, reason):
    """C57, C07: the reason reaches the server, nothing is uploaded."""
    stop, recorder, trainer = run(trainer=FakeTrainer(step))
    assert stop.code == Exit.COMPLETED
    assert len(server.failures) == 1
    assert "dropped" not in recorder.names()
    assert server.failures[0].startswith(reason)
    assert recorder.names().count("uploaded") == 2


def test_no_work_is_begun_that_the_answer_to_the_first_hello_would_take_away(server, run):
    server.hello_delay = 0.2
    stop, recorder, trainer = run(trainer=FakeTrainer("slow", "slow"))
    assert (stop.code, len(trainer.trained)) == (Exit.COMPLETED, 2)
    assert "dropped" not in recorder.names()


def test_training_without_progress_is_stopped_and_reported(server, run):
    server.stall_minutes = 0.003
    stop, _, trainer = run(trainer=FakeTrainer("hang"))
    assert (stop.code, len(trainer.cancelled)) == (Exit.COMPLETED, 1)
    assert server.failures == ["Training made no progress for 0.003 minutes."]


def test_a_restart_of_the_server_is_survived(server, run):
    server.on("stage training", server.restart)
    stop, _, trainer = run(trainer=FakeTrainer("slow"))
    assert stop.code == Exit.COMPLETED
    assert "restarted" in server.log
    assert len(trainer.trained) == 2


def test_being_replaced_ends_it_with_a_code_of_its_own(server, run):
    server.on("stage training", lambda: server.close_sockets(protocol.CLOSE_REPLACED))
    stop, _, trainer = run(trainer=FakeTrainer("hang"))
    assert (stop.code, len(trainer.cancelled)) == (Exit.REPLACED, 1)
    assert not server.paused


def test_a_session_that_is_not_current_any_more_ends_it(server, run):
    def replaced():
        server.session += 1
        server.close_sockets()

    server.on("stage training", replaced)
    assert run(trainer=FakeTrainer("hang"))[0].code == Exit.REPLACED


def test_being_removed_ends_it(server, run):
    server.on("stage training", server.remove_peer)
    stop, _, trainer = run(trainer=FakeTrainer("hang"))
    assert (stop.code, len(trainer.cancelled)) == (Exit.REMOVED, 1)


def test_a_model_that_cannot_be_loaded_is_told_to_the_server(server, run):
    """C62, C63: in a sentence."""
    error = ModelError("getModelInfo trapped: unreachable.", operation="getModelInfo", code="trap")
    stop, *_ = run(trainer=FakeTrainer(load_error=error))
    assert stop.code == Exit.MODEL_UNUSABLE
    assert stop.message == "The model cannot be loaded here: getModelInfo trapped: unreachable."
    assert server.failures == ["getModelInfo trapped: unreachable."]


def test_a_model_that_never_gets_ready_is_given_up(server, run):
    """C58: `getModelInfo` may loop for ever."""
    timing = Timing(**{**vars(QUICK), "load": 0.2})
    stop, *_ = run(trainer=FakeTrainer(load_error="hang"), timing=timing)
    assert stop.code == Exit.MODEL_UNUSABLE
    assert server.failures == ["It was not ready within 0.2 seconds."]


def test_a_token_the_server_does_not_know_is_thrown_away(server, run):
    run("--once")
    server.tokens.clear()
    stop, *_ = run()
    assert stop.code == Exit.REFUSED
    assert run("--once")[0].code == Exit.COMPLETED


def test_a_silent_server_is_given_up(server, run):
    server.on("stage training", server.__exit__)
    stop, *_ = run("--give-up-minutes", "0.008", trainer=FakeTrainer("hang"))
    assert stop.code == Exit.UNREACHABLE


def test_another_job_has_to_be_left_first(server, run):
    server.refuse["invitations/decide"] = Refusal(409, "leave_first", "Leave the current job first.")
    stop, *_ = run()
    assert stop.code == Exit.REFUSED
    assert "--leave" in stop.message
    server.refuse.clear()
    run("--once")
    assert run("--leave")[0].message == "Left “Toy job”."
    assert server.member is None
    assert run("--leave")[0].message == "This agent belongs to no job on this server."


def test_a_server_that_forgot_that_the_peer_is_ready_is_told_again(server, run):
    def forget():
        server.ready, server.attempt = False, None
        server.tell()

    server.on("accepted", forget)
    timing = Timing(**{**vars(QUICK), "poll": 0.05})
    stop, recorder, trainer = run(timing=timing)
    assert stop.code == Exit.COMPLETED
    assert server.log.count("peer/ready") == 2
