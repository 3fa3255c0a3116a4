"""Frozen weights beside the trained ones: files and snapshots, checked and loaded before a job is made."""

import hashlib
import resource

import pytest
from django.utils import timezone

from checkpoints.models import JobArtifact
from checkpoints.services.artifacts import artifact_put_file
from checkpoints.store import store
from jobs.services.auxiliary import file_slots
from jobs.services.modules import limits
from jobs.services.preparing import ready_key
from jobs.services.texts import info_of
from tests.creation.experience import LOADS, PLAYS, READS, echo, echo_package, played
from tests.creation.making import made_of, make, put, refused, request
from tests.creation.models import DATA, INFO, LOOKS, chunk, counting, model, tiny
from tests.hosts.modules.wat import EMPTY, WEIGHTS, answer, operation
from tests.models.auxiliary import REWARD
from weei_core.jail.parent import Jail

pytestmark = pytest.mark.django_db
GIB = 2**30
ONES = bytes.fromhex("0000803f") * 2
TWOS = bytes.fromhex("00000040") * 2


def slot(id_="reward", data=ONES, **changes):
    sha256 = hashlib.sha256(data).hexdigest()
    return {"id": id_, "role": "reward-model", "bytes": len(data), "sha256": sha256, **changes}


def filed(*slots):
    """The same as a package says them."""
    return [{**one, "fileName": f"{one['id']}.bin"} for one in slots]


SNAPSHOT = {"id": "old", "role": "opponent", "bytes": 16, "source": {"kind": "checkpoint", "roundsAgo": 3}}


# --- Files ---


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ({}, '"reward.bin" ("reward") is missing'),
        ({"rewards.bin": REWARD.read_bytes()}, '"reward.bin" ("reward") is missing'),
        ({"reward.bin": REWARD.read_bytes()[:-1]}, "must have 8 bytes, found 7"),
        ({"reward.bin": bytes(8)}, "must have SHA-256 c598"),
        ({"reward.bin": REWARD.read_bytes(), "old.bin": bytes(28)}, '"old.bin" is not in the manifest'),
    ],
    ids=["missing", "other name", "cut", "other bytes", "a file for a snapshot"],
)
def test_refuses_files_that_are_not_the_packages(chunks, words, user):
    draft = refused(user, **{**echo(), "chunks": chunks})
    assert (draft.error_field, words in draft.error) == ("files", True), draft.error


def test_names_wrong_chunks_and_wrong_auxiliary_files_together(user):
    info = {**INFO, "auxiliaryWeights": [slot()]}
    made = played(info, chunk(), slots=filed(slot()))
    draft = refused(user, **{**made, "chunks": {"c1.bin": DATA[:-1], "reward.bin": TWOS}})
    assert '"c1.bin" ("c1") must have 14 bytes, found 13' in draft.error
    assert '"reward.bin" ("reward") must have SHA-256' in draft.error


def test_a_file_given_twice_is_refused(user):
    made = request(**echo())
    made["files"] *= 2
    assert '"reward.bin" was given twice' in refused(user, made).error


def test_two_slots_may_hold_equal_bytes_under_two_names(user):
    info = {**PLAYS, "auxiliaryWeights": [slot("a"), slot("b")]}
    made = played(info, slots=filed(slot("a"), slot("b")))
    job = make(user, **{**made, "chunks": {"a.bin": ONES, "b.bin": ONES}})
    assert job.artifacts.filter(kind=JobArtifact.Kind.AUXILIARY).count() == 1
    assert list(file_slots(info_of(job))) == ["a", "b"]


# --- Models on datasets ---


def test_a_dataset_model_may_have_auxiliary_weights(user):
    """Inspection too comes after every `loadAuxiliary`: this module counts nothing before two were loaded."""
    info = {**LOOKS, "auxiliaryWeights": [slot(), SNAPSHOT]}
    data, counted = answer(b'{"exampleCount":8}', 3584)
    one_more = "(global.set $slots (i32.add (global.get $slots) (i32.const 1)))"
    unless_two = "(if (i32.ne (global.get $slots) (i32.const 2)) (then unreachable))"
    strict = {
        "slots": "(global $slots (mut i32) (i32.const 0))",
        "counted": data,
        "loadAuxiliary": operation("loadAuxiliary", one_more + EMPTY),
        "inspectData": operation("inspectData", unless_two + counted),
    }
    made = played(info, chunk(), module=model(info, **strict), slots=[*filed(slot()), SNAPSHOT])
    job = make(user, **{**made, "chunks": {"c1.bin": DATA, "reward.bin": ONES}})
    assert (job.dataset.count, job.checkpoints.get().next_unit) == (1, None)
    assert job.ready_key == ready_key(job.module_id, {"reward": slot()["sha256"]})
    assert job.artifacts.get(kind=JobArtifact.Kind.AUXILIARY).file_name == "reward.bin"


@pytest.mark.parametrize("declared", [slot(), SNAPSHOT], ids=["file", "snapshot"])
def test_a_model_with_slots_needs_a_package(declared, user):
    draft = refused(user, **tiny(model({"auxiliaryWeights": [declared]}, **LOADS)))
    assert (draft.error_code, "the model declares auxiliaryWeights" in draft.error) == ("package_needed", True)


def test_a_module_with_slots_exports_load_auxiliary(user):
    info = {**PLAYS, "auxiliaryWeights": [SNAPSHOT]}
    draft = refused(user, **played(info, module=model(info)))
    assert (draft.error_code, "loadAuxiliary" in draft.error) == ("export_missing", True)


# --- What the module is given ---


def seen_tasks(monkeypatch):
    """(operation, slot ids, the bytes of what the child was given first and for each slot) of every task."""
    seen = []
    real = Jail.run

    def run(self, task, inputs, outputs=None, **options):
        given = [inputs[name] for name in ("weights", *(f"auxiliary/{i}" for i in range(8))) if name in inputs]
        seen.append((task["operation"], task.get("auxiliary", []), [file.path.read_bytes() for file in given]))
        return real(self, task, inputs, outputs, **options)

    monkeypatch.setattr(Jail, "run", run)
    return seen


def test_slots_are_loaded_in_declared_order_and_snapshots_are_the_first_weights(user, monkeypatch):
    seen = seen_tasks(monkeypatch)
    job = make(user, **echo())
    first = bytes(job.checkpoints.select_related("weights").get().weights.body)
    assert seen == [
        ("describe", [], []),
        ("inspect", ["reward", "start", "old"], [first, REWARD.read_bytes(), first, first]),
    ]


def test_every_batch_of_an_inspection_loads_the_slots(user, monkeypatch):
    monkeypatch.setattr("jobs.services.modules.INSPECT_BATCH", 1)
    info = {**READS, **LOOKS, "auxiliaryWeights": [slot(), SNAPSHOT]}
    module = model(info, **counting(8), **LOADS)
    made = played(info, chunk(1), chunk(2), module=module, slots=[*filed(slot()), SNAPSHOT])
    seen = seen_tasks(monkeypatch)
    make(user, **{**made, "chunks": {"c1.bin": DATA, "c2.bin": DATA, "reward.bin": ONES}})
    loads = ("inspect", ["reward", "old"], [WEIGHTS, ONES, WEIGHTS])
    assert seen == [("describe", [], []), loads, loads, loads]


def test_the_modules_refusal_of_a_slot_is_said(user):
    """The echo model takes finite values only."""
    package, made = echo_package(), echo()
    nan = b"\0\0\xc0\x7f" * 2
    found, declared = hashlib.sha256(nan).hexdigest(), package["auxiliaryWeights"][0]["sha256"]
    module = made["module"].replace(declared.encode(), found.encode())
    assert module != made["module"]
    text = {"bytes": len(module), "sha256": hashlib.sha256(module).hexdigest()}
    package["auxiliaryWeights"][0]["sha256"] = found
    package["wasm"].update(text)
    package["execution"]["backends"][0]["artifacts"][0].update(text)
    draft = refused(user, **{**echo(package), "module": module, "chunks": {"reward.bin": nan}})
    assert (draft.error_code, "holds a value that is not finite" in draft.error) == ("module_error", True)


# --- Sizes ---


def test_refuses_a_snapshot_of_another_size_than_the_weights(user):
    """In the package, and in a module whose package says something else."""
    info = {**PLAYS, "auxiliaryWeights": [{**SNAPSHOT, "bytes": 12}]}
    draft = refused(user, **played(info))
    assert draft.error_field == "package.auxiliaryWeights[0].bytes"
    assert 'must be the 16 bytes of the weights, since slot "old" is a snapshot' in draft.error
    assert refused(user, **played(info, slots=[SNAPSHOT])).error_field == "modelInfo.auxiliaryWeights[0].bytes"


def test_refuses_nine_slots_and_takes_eight(user):
    slots = [{**SNAPSHOT, "id": f"s{n}"} for n in range(9)]
    draft = refused(user, **played({**PLAYS, "auxiliaryWeights": slots}))
    assert (draft.error_field, "at most 8; found 9" in draft.error) == ("package.auxiliaryWeights", True)
    assert len(info_of(make(user, **played({**PLAYS, "auxiliaryWeights": slots[:8]}))).auxiliary_weights) == 8


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([2 * GIB + 4], "bytes must be at most 2147483648; found 2147483652"),
        ([2 * GIB, GIB - 28], "must fit into 3221225472 bytes; found 3221225476"),
        ([6], "whole number of float32 values; found bytes 6"),
        ([0], "bytes must be at least 4; found 0"),
    ],
    ids=["over 2 GiB", "over 3 GiB", "no floats", "empty"],
)
def test_refuses_sizes_that_no_module_can_hold(sizes, words, user):
    """By what the package declares, before any byte of them is read."""
    slots = [slot(f"s{n}", bytes=size) for n, size in enumerate(sizes)]
    draft = refused(user, **played({**PLAYS, "auxiliaryWeights": slots}, slots=filed(*slots)))
    assert words in draft.error, draft.error


def test_slots_add_to_the_memory_that_a_module_may_use(settings):
    settings.MODULE_MEMORY_BYTES = GIB
    assert [limits(slots).memory_bytes for slots in (0, 2 * GIB, 3 * GIB)] == [GIB, 3 * GIB, 4 * GIB]
    settings.MODULE_MEMORY_BYTES = 2 * GIB
    assert limits(3 * GIB).memory_bytes == 4 * GIB


def sparse(name, size):
    """A file of zeros in the store that takes no room on the disk, named as a request names it."""
    with store().temporary() as path:
        with path.open("w+b") as file:
            file.truncate(size)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        artifact_put_file(path, sha256, size, timezone.now())
    return {"fileName": name, "bytes": size, "sha256": sha256}


def test_modules_and_checkpoints_stay_within_256_mb(user):
    """Other files than auxiliary ones do not grow with them."""
    made = request(**played())
    draft = refused(user, {**made, "module": sparse("model.wasm", (256 << 20) + 4), "manifest": put("m.json", b"[]")})
    assert "The module has 268435460 bytes; at most 268435456 are allowed." in draft.error
    checkpoint = sparse("start.weei-checkpoint", (256 << 20) + 4)
    draft = refused(user, {**made, "checkpoint": checkpoint, "datasetMode": "new"})
    assert "at most 268435456 bytes; found 268435460" in draft.error


GROWING = {
    "memory": '(memory (export "memory") 1 65536)',
    "alloc": """(func (export "alloc") (param $bytes i32) (result i32)
      (local $at i32) (local $pages i32)
      (local.set $at (global.get $top))
      (global.set $top (i32.and (i32.const -16)
        (i32.add (i32.const 15) (i32.add (local.get $at) (local.get $bytes)))))
      (local.set $pages (i32.sub (i32.add (i32.const 1) (i32.shr_u (global.get $top) (i32.const 16))) (memory.size)))
      (if (i32.gt_s (local.get $pages) (i32.const 0)) (then
        (if (i32.eq (i32.const -1) (memory.grow (local.get $pages))) (then (return (i32.const 0))))))
      (local.get $at))""",
}


@pytest.mark.slow
def test_a_slot_of_2_gib_is_loaded_and_never_held_in_this_process(user, settings):
    """2 GiB of zeros as a sparse file, beside a second slot. MODULE_MEMORY_BYTES alone would not hold them."""
    settings.MODULE_MEMORY_BYTES = 64 << 20
    large = sparse("large.bin", 2 * GIB)
    slots = [slot("large", bytes=large["bytes"], sha256=large["sha256"]), slot("small")]
    info = {**PLAYS, "auxiliaryWeights": slots}
    made = request(**played(info, module=model(info, **GROWING, **LOADS), slots=filed(*slots)))
    made["files"] = [large, put("small.bin", ONES)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job = made_of(user, made)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    assert dict(job.artifacts.filter(kind="auxiliary").values_list("file_name", "artifact__bytes")) == {
        "large.bin": 2 * GIB,
        "small.bin": 8,
    }


def test_a_module_that_has_no_room_for_its_slots_is_refused(user, settings):
    """Slots come on top of what every module may use, and no more than that: this one takes every slot twice."""
    settings.MODULE_MEMORY_BYTES = 16 << 20
    large = sparse("large.bin", 128 << 20)
    declared = slot("large", bytes=large["bytes"], sha256=large["sha256"])
    info = {**PLAYS, "auxiliaryWeights": [declared]}
    grow = "(if (i32.eq (i32.const -1) (memory.grow (i32.const 2048))) (then unreachable))"
    for body, made_it in ((EMPTY, True), (grow + EMPTY, False)):
        module = model(info, **GROWING, loadAuxiliary=operation("loadAuxiliary", body))
        made = request(**played(info, module=module, slots=filed(declared)))
        made["files"] = [large]
        if made_it:
            made_of(user, made).delete()
        else:
            assert refused(user, made).error_code in ("trap", "memory_limit")
