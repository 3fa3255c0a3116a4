"""A checkpoint of a transformer goes on as a policy: another module, the same weights, which are its reference too."""

import json

import pytest

from checkpoints.models import Checkpoint
from jobs.services.auxiliary import filled_slots
from tests.creation.files import file, weights_of
from tests.creation.making import SCHEDULE, make, refused, weights
from tests.models import text_policy, transformer
from weei_core.generator.configuration import configured_module
from weei_core.generator.text_policy import MANIFEST_NAME, PolicySettings, make_text_policy

pytestmark = pytest.mark.django_db

NETWORK = text_policy.architecture().transformer
POLICY = PolicySettings(group_size=2, largest_operand=9, longest_answer=4, units_per_assignment=4)


@pytest.fixture
def package(tmp_path):
    """Arguments for `request`: the policy of a transformer that the generator configured."""
    module = configured_module(
        NETWORK, transformer.info(NETWORK), text_policy.TOKENIZER.blob(), batch_size=4, max_chunk_bytes=1 << 16
    )
    made = make_text_policy(module, POLICY, tmp_path)
    manifest = json.loads(tmp_path.joinpath(MANIFEST_NAME).read_bytes())
    settings = {**made.settings, "epochs": 9, "validationSchedule": SCHEDULE, "seed": None}
    return {
        "module": made.module.read_bytes(),
        "module_name": "model.wasm",
        "manifest": manifest,
        "chunks": {},
        **settings,
    }


@pytest.fixture
def checkpoint():
    """Of a dataset job of the transformer, after round 7."""
    start = transformer.Model(NETWORK, text_policy.TOKENIZER.blob()).initial_weights()
    return file(weights=start, modelInfo=transformer.info(NETWORK))


def test_the_weights_go_on_and_are_the_reference(user, package, checkpoint):
    job = make(user, **package, checkpoint=checkpoint, mode="new")
    first = job.checkpoints.get()
    assert (job.first_round, first.round, first.next_unit, job.dataset) == (7, 7, 0, None)
    assert first.validation == Checkpoint.Validation.DUE
    assert weights(first) == weights_of(checkpoint)
    (slot,) = filled_slots(job, loaded=8)
    assert (slot.id, slot.sha256, slot.bytes) == ("reference", first.weights_id, NETWORK.weight_bytes)


def test_it_cannot_be_resumed(user, package, checkpoint):
    """The file knows no units."""
    draft = refused(user, **package, checkpoint=checkpoint, mode="resume")
    assert draft.error_field == "datasetMode"


def test_weights_of_another_size_are_refused(user, package):
    draft = refused(user, **package, checkpoint=file(weights=bytes(16)), mode="new")
    assert f"weights has 16 bytes, this model has {NETWORK.weight_bytes}" in draft.error
