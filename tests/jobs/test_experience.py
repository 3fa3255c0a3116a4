"""Experience jobs: ranges of units, their seeds, what follows a round, and what fills auxiliary slots."""

import hashlib
import json

import numpy as np
import pytest
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact
from jobs.models import Attempt, Job, Requeued, Slot
from jobs.selectors.downloads import artifact_for_peer
from jobs.selectors.job_json import job_json
from jobs.selectors.peer_state import peer_state
from jobs.selectors.status import waiting_for
from jobs.services import lifecycle, participants
from jobs.services.auxiliary import filled_slots
from jobs.services.evaluation import validation_request
from tests.jobs.world import (
    Participant,
    assert_invariants,
    floats,
    hello,
    make_experience_job,
    merge_due,
    run_to_end,
    start,
    weights_of,
)
from weei_core import seeds
from weei_core.errors import Conflict, Forbidden, Invalid, NotFound

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def running(*, members=2, workers=1, **options):
    job = make_experience_job(**options)
    people = [Participant(job, workers=workers) for _ in range(members)]
    start(job)
    return job, people


def held_ranges(people):
    return [member.item for member in people]


class TestUnits:
    def test_everybody_gets_a_range_of_new_units_in_order_of_acceptance(self):
        job, people = running(members=3)
        assert held_ranges(people) == ["units-0-8", "units-8-16", "units-16-24"]
        found = people[1].assignment
        assert found["data"] is None
        assert found["exampleCount"] == 8
        assert found["experience"] == {"seed": found["seed"], "unitStart": 8, "unitCount": 8}
        assert found["seed"] == str(seeds.experience_seed(7, 8))
        assert_invariants(job)

    def test_the_next_round_goes_on_with_the_next_unit_and_checkpoints_say_which(self):
        job, people = running(epochs=3)
        for member in people:
            member.train()
        merge_due(job)
        assert held_ranges(people) == ["units-16-24", "units-24-32"]
        assert list(Checkpoint.objects.filter(job=job).values_list("next_unit", flat=True)) == [0, 16]
        assert_invariants(job)

    def test_the_number_of_units_is_the_settings_own_and_changes_with_the_next_round(self):
        job, people = running(experience={"unitsPerAssignment": 3})
        assert held_ranges(people) == ["units-0-3", "units-3-6"]
        lifecycle.job_update_settings(job, {"experience": {"unitsPerAssignment": 5}})
        for member in people:
            member.train()
        merge_due(job)
        assert held_ranges(people) == ["units-6-11", "units-11-16"]

    def test_a_reload_repeats_the_same_work(self):
        """A retried assignment has the same units, seed and slots."""
        _, people = running()
        before = people[0].assignment
        hello(people[0].peer)
        after = people[0].assignment
        assert after["attemptId"] != before["attemptId"]
        same = ("assignmentId", "experience", "split", "settings", "weights", "auxiliary")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}

    def test_a_range_that_nobody_finished_is_dropped_and_counts_as_used(self):
        job, people = running()
        people[0].fail()
        people[1].train()
        merge_due(job)
        assert not Requeued.objects.exists()
        assert held_ranges(people) == ["units-16-24", "units-24-32"]
        assert_invariants(job)

    def test_when_nobody_finished_anything_the_round_is_dealt_new_units(self):
        job, people = running()
        for member in people:
            member.leave()
        merge_due(job)
        late = Participant(job)
        assert (late.item, late.assignment["round"]) == ("units-16-24", 1)

    def test_who_joins_during_a_round_waits_for_the_next(self):
        job, people = running()
        late = Participant(job)
        assert late.item is None
        for member in people:
            member.train()
        merge_due(job)
        assert held_ranges([*people, late]) == ["units-16-24", "units-24-32", "units-32-40"]

    def test_the_first_one_ready_begins_a_round_that_had_nobody(self):
        job, people = running(members=1)
        people[0].leave()
        assert Participant(job).item == "units-8-16"


class TestZeroUnits:
    def test_an_update_without_a_finished_unit_is_not_averaged(self):
        """C06: one with 0 and one with 8 units; weights and metrics are those of the second alone."""
        job, (a, b) = running()
        a.upload(a.assignment, weights=floats(9, 9, 9, 9), uniqueExamples=0, metrics={"loss": 9.0})
        b.upload(b.assignment, weights=floats(1, 2, 3, 4), metrics={"loss": 0.25})
        merge_due(job)
        assert weights_of(job).tolist() == [1, 2, 3, 4]
        assert json.loads(Checkpoint.objects.get(job=job, round=1).metrics_text) == {"loss": 0.25}
        assert_invariants(job)

    def test_updates_are_weighed_by_the_units_finished(self):
        """C21: 32 units of [1, 0] and 8 of [0, 1] make [0.8, 0.2]."""
        job, (a, b) = running(weights=(0.0, 0.0), experience={"unitsPerAssignment": 32})
        a.upload(a.assignment, weights=floats(1, 0))
        b.upload(b.assignment, weights=floats(0, 1), uniqueExamples=8)
        merge_due(job)
        assert weights_of(job).tolist() == floats_read(0.8, 0.2)

    def test_a_round_in_which_nobody_finished_a_unit_makes_no_checkpoint(self):
        """C06: the checkpoint stays, other units are dealt; after three such deals the job pauses and says why."""
        job, people = running()
        for deal in range(3):
            assert held_ranges(people) == [
                f"units-{16 * deal}-{16 * deal + 8}",
                f"units-{16 * deal + 8}-{16 * deal + 16}",
            ]
            for member in people:
                member.train(uniqueExamples=0)
            assert merge_due(job) == 0
        assert Checkpoint.objects.filter(job=job).count() == 1
        assert job.status == Job.Status.PAUSED
        assert "3 deals in a row ended only in errors or without a finished unit" in job.last_error

    @pytest.mark.parametrize("units", [-1, 9, 2.5, None])
    def test_more_units_than_assigned_fail_the_attempt(self, units):
        _, people = running()
        with pytest.raises(Invalid, match="uniqueExamples"):
            people[0].train(uniqueExamples=units)
        assert people[0].assignment is None


class TestSplit:
    @pytest.mark.parametrize(
        ("asked", "device", "most", "units", "split"),
        [(4, 8, 8, 8, 4), (4, 2, 8, 8, 2), (8, 8, 3, 8, 3), (8, 8, 8, 5, 5), (1, 8, 8, 8, 1)],
    )
    def test_it_is_the_least_of_what_is_asked_and_possible(self, asked, device, most, units, split):
        _, people = split_job(asked, device, most, units)
        assert people[0].assignment["split"] == split

    def test_it_stays_when_the_device_changes_its_limit(self):
        _, people = split_job(4, 4, 4, 8)
        people[0].workers = 1
        people[0].ready()
        assert people[0].assignment["split"] == 4

    def test_records_are_never_divided(self):
        job = make_experience_job(inputs="dataset", info={"maxWorkers": 8}, workers=8)
        member = Participant(job, workers=8)
        start(job)
        assert member.assignment["split"] == 1


def split_job(asked, device, most, units):
    job = make_experience_job(info={"maxWorkers": most}, workers=asked, experience={"unitsPerAssignment": units})
    member = Participant(job, workers=device)
    start(job)
    return job, [member]


def floats_read(*values):
    return np.frombuffer(floats(*values), "<f4").tolist()


class TestRounds:
    def test_epochs_are_rounds_and_the_last_one_completes_the_job(self):
        job, people = running(epochs=3)
        run_to_end(job, people)
        assert (job.round_no, job.incomplete) == (3, False)
        assert waiting_for(job, job.created) == "All planned rounds are done."
        assert_invariants(job)

    def test_a_continued_job_counts_on_from_its_checkpoint(self):
        """C31: from round 397 to 400."""
        job = make_experience_job(epochs=400)
        Job.objects.filter(pk=job.pk).update(first_round=397, round_no=397)
        Checkpoint.objects.filter(job=job).update(round=397)
        member = Participant(job)
        start(job)
        run_to_end(job, [member])
        assert list(Checkpoint.objects.filter(job=job).values_list("round", flat=True)) == [397, 398, 399, 400]

    def test_finishing_early_says_so(self):
        job, people = running(epochs=5)
        people[0].train()
        lifecycle.job_finish(job)
        merge_due(job)
        assert (job.status, job.incomplete, job.round_no) == (Job.Status.COMPLETED, True, 1)
        assert waiting_for(job, job.created) == "Finished early; not all rounds were played."

    def test_the_last_round_cannot_lie_before_the_one_at_work(self):
        job, people = running(epochs=5)
        for _ in range(2):
            for member in people:
                member.train()
            merge_due(job)
        with pytest.raises(Invalid, match="2 given, but round 3 is at work"):
            lifecycle.job_update_settings(job, {"epochs": 2})
        lifecycle.job_update_settings(job, {"epochs": 3})
        for member in people:
            member.train()
        merge_due(job)
        assert (job.status, job.incomplete) == (Job.Status.COMPLETED, False)

    def test_between_two_rounds_the_next_one_may_be_the_last_but_not_the_one_before(self):
        """A paused job goes on when it is resumed, so that its last round cannot be one that is saved already."""
        job, people = running(epochs=5)
        lifecycle.job_pause(job)
        for member in people:
            member.train()
        merge_due(job)
        with pytest.raises(Invalid, match="1 given, but round 2 comes next"):
            lifecycle.job_update_settings(job, {"epochs": 1})
        lifecycle.job_update_settings(job, {"epochs": 2})
        lifecycle.job_resume(job)
        run_to_end(job, people)
        assert (job.round_no, job.incomplete) == (2, False)

    def test_a_paused_job_ends_with_the_round_at_work_if_that_is_made_its_last(self):
        job, people = running(epochs=5)
        lifecycle.job_pause(job)
        lifecycle.job_update_settings(job, {"epochs": 1})
        for member in people:
            member.train()
        merge_due(job)
        assert (job.status, job.round_no, job.incomplete) == (Job.Status.COMPLETED, 1, False)

    def test_there_is_nothing_to_shuffle(self):
        job, _ = running()
        with pytest.raises(Conflict, match="no chunks to shuffle"):
            lifecycle.job_shuffle(job)

    def test_progress_is_told_in_rounds(self):
        job, people = running(epochs=4)
        for member in people:
            member.train()
        merge_due(job)
        told = job_json(job, timezone.now())
        assert told["progress"] | {"estimatedRemainingMs": 0} == {
            "datasetEpoch": 1,
            "plannedEpochs": 4,
            "remainingChunks": 0,
            "totalChunks": 0,
            "running": True,
            "estimatedRemainingMs": 0,
        }
        assert (told["roundsDone"], told["roundsEstimate"]) == (1, 4)
        assert {slot["chunkId"] for slot in told["slots"]} == {"units-16-24", "units-24-32"}
        mine = peer_state(people[0].peer, timezone.now())["job"]
        assert (mine["unit"], mine["passesDone"], mine["plannedPasses"]) == (
            {"id": "episode", "label": "Episodes"},
            1,
            4,
        )
        checkpoint = Checkpoint.objects.get(job=job, round=1)
        assert (checkpoint.dataset_epoch, checkpoint.dataset_progress, checkpoint.remaining_items) == (1, 1.0, 0)

    def test_a_lost_update_opens_the_round_again_without_its_units(self):
        job, (a, b) = running()
        a.train()
        b.train()
        lost = Attempt.objects.get(slot__unit_start=0)
        JobArtifact.objects.filter(artifact=lost.sha256).delete()
        Artifact.objects.filter(sha256=lost.sha256).delete()
        merge_due(job)
        merge_due(job)
        ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
        assert [slot["item"] for slot in ledger["slots"]] == ["units-8-16"]
        assert [slot["item"] for slot in ledger["discarded"]] == ["units-0-8"]


class TestRecords:
    """`inputs: "dataset"`: chunks and ranges of records as for a dataset job; their records are the units."""

    def test_an_assignment_carries_both(self):
        job = make_experience_job(inputs="dataset", records=[8, 4, 6], chunks=3)
        people = [Participant(job) for _ in range(2)]
        start(job)
        found = people[1].assignment
        assert (found["chunkId"], found["data"]["format"]) == ("c2", "toy")
        assert found["experience"] == {"seed": str(seeds.experience_seed(7, 8)), "unitStart": 8, "unitCount": 4}

    def test_units_count_on_over_all_passes_until_the_rounds_are_played(self):
        job = make_experience_job(inputs="dataset", records=[8, 4], chunks=2, epochs=5)
        member = Participant(job)
        start(job)
        units = []
        while job.status != Job.Status.COMPLETED:
            found = member.assignment
            units.append((found["experience"]["unitStart"], found["experience"]["unitCount"]))
            member.train()
            merge_due(job)
        assert units == [(0, 8), (8, 4), (12, 8), (20, 4), (24, 8)]
        assert list(Checkpoint.objects.filter(job=job).values_list("next_unit", flat=True)) == [0, 0, 12, 12, 24, 24]
        assert list(Checkpoint.objects.filter(job=job).values_list("dataset_epoch", flat=True)) == [0, 0, 1, 1, 2, 2]
        assert (job.round_no, job.incomplete) == (5, False)
        assert_invariants(job)

    def test_a_part_of_a_chunk_has_its_own_units_and_seed(self):
        job = make_experience_job(inputs="dataset", chunks=1, records=9, capabilities={"recordRanges": True}, epochs=2)
        people = [Participant(job) for _ in range(2)]
        start(job)
        assert [member.assignment["experience"] for member in people] == [
            {"seed": str(seeds.experience_seed(7, 0)), "unitStart": 0, "unitCount": 5},
            {"seed": str(seeds.experience_seed(7, 5)), "unitStart": 5, "unitCount": 4},
        ]

    def test_what_somebody_lost_goes_back_into_the_queue(self):
        job = make_experience_job(inputs="dataset", chunks=3)
        a, b = Participant(job), Participant(job)
        start(job)
        seed = a.assignment["seed"]
        a.leave()
        b.train()
        merge_due(job)
        assert b.item == "c1"
        assert b.assignment["seed"] == seed
        assert_invariants(job)

    def test_an_item_of_which_no_unit_was_finished_goes_to_who_joined_late(self):
        job = make_experience_job(inputs="dataset", chunks=2)
        a, b = Participant(job), Participant(job)
        start(job)
        late = Participant(job)
        assert late.item is None
        a.train(uniqueExamples=0)
        assert (late.item, a.item, b.item) == ("c1", None, "c2")
        assert_invariants(job)

    def test_an_item_of_which_no_unit_was_finished_goes_back_and_is_held_after_three_times(self):
        """C06."""
        job = make_experience_job(inputs="dataset", chunks=2)
        a, b = Participant(job), Participant(job)
        start(job)
        for _ in range(3):
            idle = a if a.item == "c1" else b
            idle.train(uniqueExamples=0)
            other = b if idle is a else a
            if other.item:
                other.train()
            merge_due(job)
        assert_invariants(job)
        held = Requeued.objects.get(job=job, held=True)
        assert (held.last_error, job.status) == ("No unit of it was finished.", Job.Status.PAUSED)
        lifecycle.item_skip(job, held.pk)
        run_to_end(job, [a, b])
        assert job.round_no == 3


SLOTS = [
    {"id": "reward", "role": "reward-model", "bytes": 8, "sha256": hashlib.sha256(b"reward!!").hexdigest()},
    {"id": "start", "role": "reference-policy", "bytes": 16, "source": {"kind": "initial"}},
    {"id": "old", "role": "opponent", "bytes": 16, "source": {"kind": "checkpoint", "roundsAgo": 2}},
]


class TestAuxiliarySlots:
    def slots_job(self, **options):
        return running(info={"auxiliaryWeights": SLOTS}, files=[b"reward!!"], epochs=5, **options)

    def test_files_and_snapshots_fill_them_in_declared_order(self):
        """`roundsAgo` counts back from the round's start checkpoint and stops at the job's first."""
        job, people = self.slots_job()
        seen = []
        while job.status != Job.Status.COMPLETED:
            seen.append({slot["id"]: slot["sha256"] for slot in people[0].assignment["auxiliary"]})
            for member in people:
                member.train()
            merge_due(job)
        weights = list(Checkpoint.objects.filter(job=job).values_list("weights_id", flat=True))
        assert [list(slots) for slots in seen] == [["reward", "start", "old"]] * 5
        assert {slots["reward"] for slots in seen} == {SLOTS[0]["sha256"]}
        assert {slots["start"] for slots in seen} == {weights[0]}
        assert [slots["old"] for slots in seen] == [weights[0], weights[0], weights[0], weights[1], weights[2]]

    def test_evaluation_of_a_checkpoint_uses_the_same_rule(self):
        job, people = self.slots_job()
        run_to_end(job, people)
        weights = list(Checkpoint.objects.filter(job=job).values_list("weights_id", flat=True))
        assert [slot.sha256 for slot in filled_slots(job, 5)] == [SLOTS[0]["sha256"], weights[0], weights[3]]

    def test_the_ledger_names_what_filled_them(self):
        job, people = self.slots_job()
        run_to_end(job, people)
        ledger = json.loads(Checkpoint.objects.get(job=job, round=4).ledger_text)
        assert ledger["auxiliary"] == [{"id": s.id, "sha256": s.sha256} for s in filled_slots(job, 3)]

    def test_a_participant_is_told_of_files_first_and_must_hold_them(self):

        job, people = self.slots_job()
        files = peer_state(people[0].peer, timezone.now())["job"]["auxiliary"]
        assert [(slot["id"], slot["fileName"], slot["bytes"]) for slot in files] == [("reward", "auxiliary-0.bin", 8)]
        with pytest.raises(Conflict, match="not the files of this job"):
            participants.participant_ready(people[0].peer, job.pk, job.module_id, {})
        with pytest.raises(Conflict, match="not the files of this job"):
            participants.participant_ready(people[0].peer, job.pk, job.module_id, {"reward": "0" * 64})

    def test_a_snapshot_can_be_read_while_the_assignment_needs_it(self):
        job, (a, b) = self.slots_job()
        for _ in range(4):
            a.train()
            b.train()
            merge_due(job)
        first, second, third = (
            Checkpoint.objects.filter(job=job).order_by("round").values_list("weights_id", flat=True)[:3]
        )
        assert artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=first).artifact.pk == first
        assert artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=third).artifact.pk == third
        with pytest.raises(Forbidden):
            artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=second)
        a.train()
        with pytest.raises(Forbidden):
            artifact_for_peer(peer=a.peer, job_id=job.pk, sha256=third)

    def test_nobody_else_can_read_any_of_it(self):
        job, _ = self.slots_job()
        outsider = Participant(make_experience_job())
        for sha256 in (SLOTS[0]["sha256"], job.checkpoints.first().weights_id):
            with pytest.raises(NotFound):
                artifact_for_peer(peer=outsider.peer, job_id=job.pk, sha256=sha256)


class TestEvaluation:
    def test_it_is_due_by_the_schedule_without_a_validation_file(self):
        schedule = {"enabled": True, "unit": "round", "every": 2}
        job, people = running(epochs=5, capabilities={"evaluation": True}, validationSchedule=schedule)
        run_to_end(job, people)
        due = Checkpoint.objects.filter(job=job, validation="due").values_list("round", flat=True)
        assert list(due) == [2, 4, 5]

    def test_it_can_be_asked_for(self):
        job, _ = running(capabilities={"evaluation": True})
        assert validation_request(job).validation == "due"

    @pytest.mark.parametrize("change", [{"capabilities": {}}, {"source": {"evaluationUnits": 0}}])
    def test_it_is_refused_when_the_model_has_none(self, change):
        job, _ = running(**{"capabilities": {"evaluation": True}, **change})
        with pytest.raises(Conflict, match="evaluat"):
            validation_request(job)


def test_slots_of_a_round_never_share_a_place():
    job, _ = running(members=3)
    assert len(set(Slot.objects.filter(round__job=job).values_list("position", "record_start"))) == 3
