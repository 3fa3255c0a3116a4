"""Jobs of models that make their own data: from a package, without a dataset. Each check that refuses one is here."""

import hashlib
import json

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint, JobArtifact
from jobs.selectors.peer_state import peer_state
from jobs.services.auxiliary import file_slots
from jobs.services.preparing import ready_key
from jobs.services.texts import info_of, settings_of
from tests.creation.experience import (
    PLAYS,
    READS,
    WORK,
    described_inline,
    echo,
    echo_package,
    played,
)
from tests.creation.making import SCHEDULE, made_of, make, put, refused, request, weights
from tests.creation.models import DATA, LOOKS, chunk, counting, model
from tests.hosts.modules.wat import EMPTY, operation
from tests.jobs.world import Participant, start
from tests.models.auxiliary import REWARD, initial_weights
from weei_core import seeds

pytestmark = pytest.mark.django_db
Validation = Checkpoint.Validation
EVALUATES = {"evaluate": operation("evaluate", EMPTY)}


# --- What is made ---


@pytest.mark.db
def test_makes_a_job_without_a_dataset(user):
    job = make(user, **echo(), validationSchedule=SCHEDULE)
    assert (job.dataset, job.validation_file, job.validation_format, job.next_unit) == (None, None, "", 0)
    assert (job.model_id, job.weight_bytes, job.job_seed) == ("aux-echo", 28, "42")
    assert json.loads(job.package_text) == echo_package()
    kinds = dict(job.artifacts.values_list("kind", "file_name"))
    assert kinds == {"module": "aux-echo.wasm", "manifest": "manifest.json", "auxiliary": "reward.bin", "weights": ""}
    reward = hashlib.sha256(REWARD.read_bytes()).hexdigest()
    assert job.artifacts.get(kind=JobArtifact.Kind.AUXILIARY).artifact_id == reward
    assert file_slots(info_of(job)) == {"reward": reward}
    assert job.ready_key == ready_key(job.module_id, {"reward": reward})


def test_the_first_checkpoint_begins_at_unit_0(user):
    first = make(user, **echo(), validationSchedule=SCHEDULE).checkpoints.get()
    assert weights(first) == initial_weights(seeds.initial_weights_seed(42))
    assert (first.round, first.next_unit, first.dataset_epoch, first.dataset_progress) == (0, 0, 0, 0)
    assert (first.remaining_items, first.validation) == (0, Validation.DUE)


def test_a_dataset_job_has_no_next_unit(user):
    assert make(user).checkpoints.get().next_unit is None


def test_draws_a_seed_when_none_is_given(user):
    assert make(user, **played(), seed=None).job_seed != make(user, **played(), seed=None).job_seed


def test_units_are_the_models_own_or_chosen(user):
    """`epochs` are rounds."""
    chosen = settings_of(make(user, **played(), epochs=30))
    assert (chosen.epochs, chosen.units_per_assignment) == (30, 32)
    assert settings_of(make(user, **played(), experience={"unitsPerAssignment": 2})).units_per_assignment == 2
    assert json.loads(make(user, **played()).settings_text)["experience"] == {"unitsPerAssignment": 32}


def test_makes_a_job_over_records(user):
    info = {**READS, **LOOKS}
    made = played(info, chunk(1), chunk(2), module=model(info, **counting(8)))
    job = make(user, **{**made, "chunks": {"c1.bin": DATA, "c2.bin": DATA}})
    first = job.checkpoints.get()
    assert [row.first_example for row in job.dataset.chunks.all()] == [0, 8]
    assert (first.next_unit, first.remaining_items, first.dataset_progress) == (0, 2, 0)


def test_an_experience_model_is_due_for_evaluation_when_it_evaluates(user):
    info = {**PLAYS, "capabilities": {"evaluation": True}}
    with_units = {**info, "workSource": {**WORK, "evaluationUnits": 3}}
    evaluating = played(with_units, module=model(with_units, **EVALUATES))
    assert make(user, **evaluating, validationSchedule=SCHEDULE).checkpoints.get().validation == Validation.DUE
    off = {**SCHEDULE, "enabled": False}
    assert make(user, **evaluating, validationSchedule=off).checkpoints.get().validation == Validation.NONE


def test_over_records_an_evaluation_needs_the_file(user):
    info = {**READS, "capabilities": {"evaluation": True}}
    validation = b"held out"
    declared = {"fileName": "validation.bin", "bytes": 8, "format": "tiny", "exampleCount": 5}
    declared["sha256"] = hashlib.sha256(validation).hexdigest()
    made = played(info, chunk(), module=model(info, **EVALUATES), validation=declared)
    made["chunks"] = {"c1.bin": DATA}
    assert make(user, **made, validationSchedule=SCHEDULE).checkpoints.get().validation == Validation.NONE
    job = make(user, **made, validation=validation, validationSchedule=SCHEDULE)
    assert (job.checkpoints.get().validation, job.validation_format) == (Validation.DUE, "tiny")


# --- A package is needed ---


@pytest.mark.parametrize("text", [b"[]", b" [\n ]\n"])
def test_an_empty_list_for_an_experience_model_says_that_a_package_is_needed(text, user):
    """C54."""
    draft = refused(user, **{**played(), "manifest": text})
    assert (draft.error_code, draft.error_field) == ("package_needed", "manifest")
    assert "must be the model package's manifest.json, since this is an experience model" in draft.error


def test_a_list_of_chunks_for_an_experience_model_says_that_a_package_is_needed(user):
    """C54."""
    draft = refused(user, **{**played(), "manifest": [chunk()], "chunks": {"c1.bin": DATA}})
    assert (draft.error_code, "found a plain list of chunks" in draft.error) == ("package_needed", True)


def test_a_package_without_chunks_for_a_dataset_model_says_what_is_missing(user):
    """C54: an experience package whose workSource was taken away."""
    draft = refused(user, **played({"workSource": None}))
    assert "list 1 to 10000 chunks; found an empty list" in draft.error
    assert draft.error_field == 'package.inlineJson["dataset-manifest.json"]'


# --- The package and the selected files ---


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("schema",), "weei-package", "package.schema"),
        (("schemaVersion",), 2, "package.schemaVersion"),
        (("hostRuntime", "id"), "other", "package.hostRuntime.id"),
        (("hostRuntime", "delivery"), "download", "package.hostRuntime.delivery"),
        (("workSource", "kind"), "stream", "package.workSource.kind"),
        (("workSource", "inputs"), "sensor", "package.workSource.inputs"),
        (("workSource", "unit", "label"), "", "package.workSource.unit.label"),
        (("workSource", "evaluationUnits"), -1, "package.workSource.evaluationUnits"),
        (("workSource", "unitsPerAssignment", "minimum"), 7, "package.workSource.unitsPerAssignment"),
        (("wasm", "sha256"), "0" * 64, "package.execution.backends[0].artifacts"),
        (("execution", "compatibility", "bytes"), 640, "package.execution.compatibility.bytes"),
        (("execution", "datasetManifest", "sha256"), "0" * 64, "package.execution.datasetManifest.sha256"),
        (("execution", "weightBytes"), 32, 'package.inlineJson["compatibility.json"].weightBytes'),
        (("auxiliaryWeights", 0, "bytes"), 10, "package.auxiliaryWeights[0]"),
        (("auxiliaryWeights", 1, "bytes"), 32, "package.auxiliaryWeights[1].bytes"),
        (("auxiliaryWeights", 1, "fileName"), "start.bin", "package.auxiliaryWeights[1]"),
        (("auxiliaryWeights", 2, "source", "roundsAgo"), -1, "package.auxiliaryWeights[2].source.roundsAgo"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_refuses_a_package_by_the_check_that_failed(path, value, field, user):
    package = echo_package()
    place = package
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    draft = refused(user, **echo(package))
    assert (draft.error_field, draft.error.startswith(field)) == (field, True)


def test_refuses_chunks_in_a_package_without_inputs(user):
    package = echo_package()
    package["inlineJson"]["dataset-manifest.json"] = [chunk()]
    draft = refused(user, **echo(described_inline(package)))
    assert 'must be empty, workSource.inputs being "none"; found 1 chunks' in draft.error


def test_refuses_chunk_files_without_inputs(user):
    made = echo()
    made["chunks"]["c1.bin"] = DATA
    draft = refused(user, **made)
    assert (draft.error_field, '"c1.bin" is not in the manifest' in draft.error) == ("files", True)


def test_refuses_a_validation_file_without_inputs(user):
    draft = refused(user, **echo(), validation=b"held out")
    assert (draft.error_field, 'workSource.inputs being "none"; found "validation.bin"' in draft.error) == (
        "validation",
        True,
    )


@pytest.mark.parametrize("name", ["aux-echo.wasm", "other.wasm"])
def test_refuses_another_module_than_the_packages(name, user):
    """By bytes, and by name alone."""
    made = echo()
    made |= {"module": made["module"] + b"\0\5\4more"} if name == "aux-echo.wasm" else {"module_name": name}
    draft = refused(user, **made)
    assert (draft.error_field, f'found "{name}"' in draft.error) == ("wasm", True)


GPU = {"id": "gpu", "kind": "gpu", "runtime": "weei-device-program-v1", "artifacts": []}


def shaders(code="@compute @workgroup_size(1) fn main() {}"):
    """(what a package says of an archive, its bytes)."""
    listed = {"id": "main", "sha256": hashlib.sha256(code.encode()).hexdigest()}
    archive = {"schema": "weei-wgsl-archive", "schemaVersion": 1, "modules": [{**listed, "code": code}]}
    data = json.dumps(archive).encode()
    described = {"fileName": "shaders.json", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {**described, "modules": [listed]}, data


def with_archive(made, data):
    made = request(**made)
    made["executionFiles"] = [put("shaders.json", data)]
    return made


def test_a_gpu_backend_comes_with_a_shader_archive(user):
    package = echo_package()
    package["execution"]["backends"].append(GPU)
    assert "come with a shaderArchive" in refused(user, **echo(package)).error
    package["shaderArchive"], data = shaders()
    assert make(user, **echo(package)).artifacts.filter(kind="archive").count() == 0
    job = made_of(user, with_archive(echo(package), data))
    assert job.artifacts.get(kind="archive").artifact_id == package["shaderArchive"]["sha256"]


def test_participants_are_told_the_backend_and_the_shaders_that_the_job_was_given(user):
    package = echo_package()
    package["shaderArchive"], data = shaders()
    hashes = [module["sha256"] for module in package["shaderArchive"]["modules"]]
    left_out = Participant(make(user, **echo(package)))
    given = Participant(made_of(user, with_archive(echo(package), data)))
    start(given.job)
    now = timezone.now()
    assert peer_state(left_out.peer, now)["job"]["wgsl"] == {"present": False, "sha256": []}
    told = peer_state(given.peer, now)
    assert told["job"]["wgsl"] == {"present": True, "sha256": hashes}
    assert told["assignment"]["backend"] == "cpu-wasm-simd"


def test_a_selected_wgsl_file_is_the_packages_own(user):
    _, data = shaders()
    draft = refused(user, with_archive(echo(), data))
    assert (draft.error_field, "declares it as its shaderArchive" in draft.error) == ("executionFiles", True)
    package = echo_package()
    package["shaderArchive"], _ = shaders()
    _, other = shaders("@compute @workgroup_size(2) fn main() {}")
    draft = refused(user, with_archive(echo(package), other))
    assert (draft.error_field, "must be the package's shaderArchive" in draft.error) == ("executionFiles", True)


def test_the_archive_is_checked_module_by_module(user):
    package = echo_package()
    declared, data = shaders()
    package["shaderArchive"] = {**declared, "modules": [{"id": "main", "sha256": "0" * 64}]}
    draft = refused(user, with_archive(echo(package), data))
    assert (draft.error_field, 'WGSL module "main"' in draft.error) == ("wgslArchive.modules", True)


def test_over_records_there_is_no_gpu_backend(user):
    made = played(READS, chunk())
    made["manifest"]["execution"]["backends"].append(GPU)
    made["manifest"]["shaderArchive"], _ = shaders()
    draft = refused(user, **{**made, "chunks": {"c1.bin": DATA}})
    assert draft.error_field == "package.execution.backends[1]"
    assert 'workSource.inputs "none"' in draft.error


# --- The package and the loaded module ---


def test_refuses_a_package_that_says_another_unit_than_the_module(user):
    package = echo_package()
    package["workSource"]["evaluationUnits"] = 5
    draft = refused(user, **echo(package))
    assert draft.error_field == "package.workSource"
    assert '"evaluationUnits":4}; found {' in draft.error
    assert '"evaluationUnits":5}.' in draft.error


def test_refuses_a_work_source_that_the_module_lacks(user):
    draft = refused(user, **played({"workSource": None}, workSource=WORK))
    assert (draft.error_field, "equal the module's, none; found {" in draft.error) == ("package.workSource", True)


def test_refuses_a_module_whose_work_source_the_package_lacks(user):
    made = played(READS, chunk(), workSource=None)
    draft = refused(user, **{**made, "chunks": {"c1.bin": DATA}})
    assert (draft.error_field, "; found none." in draft.error) == ("package.workSource", True)


@pytest.mark.parametrize("changed", [{"role": "value"}, {"id": "rewards"}, {"bytes": 12}])
def test_refuses_a_slot_that_the_module_declares_otherwise(changed, user):
    package = echo_package()
    package["auxiliaryWeights"][0].update(changed)
    made = echo(package)
    if "bytes" in changed:
        made["chunks"] = {"reward.bin": bytes(12)}
        package["auxiliaryWeights"][0]["sha256"] = hashlib.sha256(bytes(12)).hexdigest()
    draft = refused(user, **made)
    assert draft.error_field == "package.auxiliaryWeights[0]"
    assert "equal the module's without fileName" in draft.error


@pytest.mark.parametrize("order", [(0, 1), (0, 2, 1)], ids=["one less", "another order"])
def test_refuses_other_slots_than_the_modules(order, user):
    package = echo_package()
    package["auxiliaryWeights"] = [package["auxiliaryWeights"][i] for i in order]
    assert "auxiliaryWeights" in refused(user, **echo(package)).error_field


def test_refuses_another_model_id_and_weight_size(user):
    made = played({**PLAYS, "id": "other"}, module=model(PLAYS))
    assert refused(user, **made).error_field == "package.execution.modelId"
    package = played()["manifest"]
    package["execution"]["weightBytes"] = 20
    package["inlineJson"]["compatibility.json"].update(weightCount=5, weightBytes=20)
    draft = refused(user, **{**played(), "manifest": described_inline(package)})
    assert draft.error_field == "package.execution.weightBytes"
    assert "be the size of the initial weights, 16; found 20" in draft.error


# --- Settings ---


@pytest.mark.parametrize("units", [1, 4097, 0, True, 2.5, "32", None])
def test_units_stay_within_the_models_range(units, user):
    draft = refused(user, **played(), experience={"unitsPerAssignment": units})
    assert draft.error_field == "settings.experience.unitsPerAssignment"


@pytest.mark.parametrize(
    ("chosen", "field"),
    [
        ({"experience": {"units": 3}}, "settings.experience"),
        ({"epochs": 0}, "settings.epochs"),
        ({"epochs": 3, "rounds": 4}, "settings.epochs"),
        ({"seed": "18446744073709551616"}, "settings.seed"),
        ({"seed": 7}, "settings.seed"),
        ({"workers": 65}, "settings.workers"),
        ({"validationSchedule": {"enabled": True, "unit": "epoch", "every": 1}}, "settings.validationSchedule.unit"),
        ({"validationSchedule": SCHEDULE}, "settings.validationSchedule.enabled"),
    ],
    ids=str,
)
def test_refuses_settings_by_field(chosen, field, user):
    """The tiny model declares no evaluation."""
    draft = refused(user, **played(), **chosen)
    assert draft.error_field.startswith(field), (draft.error_field, draft.error)


def test_a_schedule_needs_evaluation_units(user):
    info = {**PLAYS, "capabilities": {"evaluation": True}}
    draft = refused(user, **played(info, module=model(info, **EVALUATES)), validationSchedule=SCHEDULE)
    assert "the model declares no evaluation units" in draft.error


# --- Records that are units ---


@pytest.mark.parametrize("count", [7, 9])
def test_records_that_are_units_are_counted_exactly(count, user):
    """A dataset model may find fewer than the manifest says."""
    info = {**READS, **LOOKS}
    made = played(info, chunk(), module=model(info, **counting(count)))
    draft = refused(user, **{**made, "chunks": {"c1.bin": DATA}})
    assert (draft.error_code, f"the module finds {count}" in draft.error) == ("unreadable_data", True)


def test_a_model_without_inputs_is_not_asked_to_inspect(user):
    info = {**PLAYS, **LOOKS}
    assert make(user, **played(info, module=model(info, **counting(8)))).dataset is None
