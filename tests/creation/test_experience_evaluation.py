"""Evaluation of models that make their own data: the same units with the same seed at every checkpoint, beside the
slots of that checkpoint. Covers C34."""

import json

import pytest

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_bytes
from jobs.services.evaluation import validation_request, validation_run
from tests.creation.experience import HELD_OUT, PLAYS, WORK, echo, played, reference
from tests.creation.files import exported
from tests.creation.making import SCHEDULE, make
from tests.creation.models import model
from tests.creation.training import Peers
from tests.hosts.modules.wat import EMPTY, operation
from tests.models.auxiliary import REWARD, expected_metrics
from weei_core import seeds
from weei_core.errors import Conflict
from weei_core.jail.parent import Jail

pytestmark = pytest.mark.django_db
Validation = Checkpoint.Validation
EVERY_5 = {**SCHEDULE, "every": 5}
EVALUATION_SEED = seeds.evaluation_seed(42)


def run_due(job):
    for pk in list(Checkpoint.objects.filter(job=job, validation=Validation.DUE).values_list("pk", flat=True)):
        validation_run(pk)


def evaluations(job):
    """What the module said, by round."""
    rows = Checkpoint.objects.filter(job=job, validation=Validation.DONE).order_by("round")
    return {row.round: json.loads(row.validation_text) for row in rows}


@pytest.fixture
def asked(monkeypatch):
    """The work of every `evaluate` that a child is asked for."""
    works = []
    real = Jail.run

    def run(self, task, *arguments, **options):
        if task["operation"] == "evaluate":
            works.append(task["work"])
        return real(self, task, *arguments, **options)

    monkeypatch.setattr(Jail, "run", run)
    return works


@pytest.mark.db
def test_every_evaluation_plays_the_same_32_units_with_the_same_seed(user, trainer, asked):
    """C34: CartPole, evaluated at rounds 5 and 10 and at both ends of the job, then at round 5 again."""
    units = {"experience": {"unitsPerAssignment": 4}}
    job = make(user, **reference("cartpole"), **units, epochs=10, validationSchedule=EVERY_5)
    Peers(job, trainer, 2).start().run()
    run_due(job)
    first = evaluations(job)
    assert [(number, found["examplesProcessed"]) for number, found in first.items()] == [(0, 32), (5, 32), (10, 32)]
    validation_request(job, 5)
    run_due(job)
    assert evaluations(job) == first
    assert [work["units"] for work in asked] == [{"seed": str(EVALUATION_SEED), "unit_start": 0, "unit_count": 32}] * 4
    next_unit = job.checkpoints.get(round=10).next_unit
    assert next_unit == 10 * 2 * 4
    assert EVALUATION_SEED not in {seeds.experience_seed(42, unit) for unit in range(next_unit)}


@pytest.mark.db
def test_an_evaluation_has_the_slots_of_its_checkpoint(user, trainer):
    """The start is round 0, the opponent is two rounds older than the checkpoint, and not before the first."""
    job = make(user, **echo(), epochs=4, validationSchedule=SCHEDULE)
    Peers(job, trainer, 2).start().run()
    run_due(job)
    weights = [
        artifact_bytes(sha256, 28) for sha256 in job.checkpoints.order_by("round").values_list("weights_id", flat=True)
    ]
    found = evaluations(job)
    assert list(found) == [0, 1, 2, 3, 4]
    for number, old in ((0, 0), (1, 0), (2, 0), (3, 1), (4, 2)):
        slots = [REWARD.read_bytes(), weights[0], weights[old]]
        units = {"seed": EVALUATION_SEED, "unit_start": 0, "unit_count": 4}
        assert found[number]["metrics"] == pytest.approx(expected_metrics(weights[number], slots, **units), rel=1e-8)


def test_an_evaluation_after_continuing_counts_from_the_files_round(user, trainer):
    """Neither `initial` nor `roundsAgo` reach behind the job's own first checkpoint."""
    job = make(user, **echo(), epochs=3)
    Peers(job, trainer, 1).start().run()
    again = make(user, **echo(), epochs=5, checkpoint=exported(job), mode="resume", seed=None)
    first = artifact_bytes(again.checkpoints.get().weights_id, 28)
    validation_request(again)
    run_due(again)
    slots = [REWARD.read_bytes(), first, first]
    units = {"seed": EVALUATION_SEED, "unit_start": 0, "unit_count": 4}
    assert evaluations(again)[3]["metrics"] == pytest.approx(expected_metrics(first, slots, **units), rel=1e-8)


@pytest.mark.db
def test_over_records_the_validation_file_is_played(user, trainer, asked):
    """The bandit refuses every other number of units than the file's records."""
    job = make(user, **reference("bandit"), validation=HELD_OUT, epochs=2, learningRate=1, validationSchedule=SCHEDULE)
    Peers(job, trainer, 2).start().run()
    run_due(job)
    assert [found["examplesProcessed"] for found in evaluations(job).values()] == [120] * 3
    for work in asked:
        assert work["data"] == {"format": "bandit-f32-v1"}
        assert work["units"] == {"seed": str(EVALUATION_SEED), "unit_start": 0, "unit_count": 120}


def test_on_demand_without_a_schedule(user):
    job = make(user, **echo())
    assert validation_request(job).validation == Validation.DUE
    run_due(job)
    assert evaluations(job)[0]["examplesProcessed"] == 4


def test_says_why_a_model_cannot_be_evaluated(user):
    """Neither declared; declared without units; over records without a validation file."""
    with pytest.raises(Conflict, match="does not declare evaluation") as refused:
        validation_request(make(user, **played()))
    assert refused.value.code == "no_evaluation"
    info = {**PLAYS, "workSource": {**WORK, "evaluationUnits": 0}, "capabilities": {"evaluation": True}}
    job = make(user, **played(info, module=model(info, evaluate=operation("evaluate", EMPTY))))
    with pytest.raises(Conflict, match="workSource.evaluationUnits is 0") as refused:
        validation_request(job)
    assert (refused.value.code, refused.value.field) == ("no_evaluation", "workSource.evaluationUnits")
    with pytest.raises(Conflict, match="without a validation file") as refused:
        validation_request(make(user, **reference("bandit")))
    assert refused.value.code == "no_validation_file"
