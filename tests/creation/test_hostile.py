"""Hostile modules in a request for a job: each is refused with a sentence, leaves nothing, and the next job is made.

Covers W1-W9, W12-W16, C57, C58, C60, C63 where a coordinator meets them.
"""

import json

import pytest

from jobs.models import JobEvent
from tests.creation.making import make, prepare, refused, request, small
from tests.creation.models import LOOKS, chunk, counting, model, tiny
from tests.hosts.modules.bombs import BOMBS
from tests.hosts.modules.hostile import CASES

pytestmark = pytest.mark.django_db

BEFORE_TRAINING = [case for case in CASES if case.code and case.operation != "train"]
IN_TRAINING = [case for case in CASES if case.code and case.operation == "train" and "train" in case.parts]


@pytest.fixture(autouse=True)
def _short_limits(settings):
    settings.MODULE_WALL_SECONDS = 0.5
    settings.MODULE_CPU_SECONDS = 3
    settings.MODULE_MEMORY_BYTES = 64 << 20


@pytest.mark.parametrize("case", BEFORE_TRAINING, ids=lambda case: case.name)
def test_refuses_a_hostile_module(case, user):
    draft = refused(user, **tiny(case.wasm()))
    assert draft.error_code == case.code, draft.error


@pytest.mark.parametrize("case", IN_TRAINING, ids=lambda case: case.name)
def test_refuses_a_module_that_fails_at_the_data(case, user):
    draft = refused(user, **tiny(model(LOOKS, of=case)))
    assert draft.error_code == "unreadable_data", draft.error
    assert 'Chunk "c1": ' in draft.error


def test_there_are_thirty_and_more():
    assert len(BEFORE_TRAINING) + len(IN_TRAINING) > 60


@pytest.mark.parametrize("name", ["900,000 functions", "jump tables"])
def test_stops_the_compile_bomb_and_makes_the_next_job(name, user, settings):
    """W9: the child dies alone; the same worker then makes an honest job."""
    draft = refused(user, **tiny(BOMBS[name]()))
    assert draft.error_code in ("time_limit", "memory_limit"), draft.error
    settings.MODULE_WALL_SECONDS = 30
    assert make(user, **small()).status == "ready"


@pytest.mark.parametrize("data", [b"(module)", b"<html>", b"\0asm\r\0\1\0"], ids=["text", "html", "component"])
def test_refuses_what_is_no_module(data, user):
    """F13, C60."""
    assert refused(user, **tiny(data)).error_code == "not_wasm"


def test_shows_the_modules_own_words_as_they_stand(user):
    """W14: cut to 500 characters; escaping is the page's work."""
    [case] = [case for case in CASES if case.name == "error_of_900_kib"]
    assert "<script>xxx" in (error := refused(user, **tiny(model(LOOKS, of=case))).error)
    assert len(error) < 700


def test_says_that_weights_are_not_compatible(user):
    [case] = [case for case in CASES if case.name == "weights_not_compatible"]
    assert "other model" in refused(user, **tiny(case.wasm())).error


def test_makes_a_job_of_an_honest_module(user):
    job = make(user, **tiny(model(LOOKS, **counting(8))))
    assert (job.model_id, job.weight_bytes) == ("tiny", 16)
    assert json.loads(JobEvent.objects.get(job=job, event="job.created").details_text) == {"warnings": []}


def test_records_what_is_odd_and_allowed(user):
    """C50: fewer examples than the manifest says; a memory without a maximum."""
    memory = '(memory (export "memory") 1)'
    job = make(user, **tiny(model(LOOKS, **counting(7), memory=memory)))
    warnings = json.loads(JobEvent.objects.get(job=job, event="job.created").details_text)["warnings"]
    assert ["maximum" in warnings[0], warnings[1:]] == [
        True,
        ['Chunk "c1": exampleCount is 8, the module finds 7.'],
    ]


@pytest.mark.parametrize(
    ("count", "ranges"), [(9, False), (0, False), (7, True), (9, True)], ids=["more", "none", "fewer", "more"]
)
def test_refuses_counts_that_do_not_match(count, ranges, user):
    """C50. Where chunks are cut into ranges of records, fewer are refused too: a range would end behind the data."""
    info = {"capabilities": {"inspection": True, "recordRanges": ranges}}
    draft = refused(user, **tiny(model(info, **counting(count)), chunk(1), chunk(2)))
    assert (draft.error_code, draft.error_field) == ("unreadable_data", "files")
    assert f'Chunk "c1": exampleCount is 8, the module finds {count}' in draft.error
    assert 'Chunk "c2"' in draft.error


def test_names_the_validation_file_that_cannot_be_read(user):
    info = {"capabilities": {"inspection": True, "evaluation": True}}
    evaluate = '(func (export "evaluate") (param i32 i32) (result i32) unreachable)'
    made = request(**tiny(model(info, **counting(0), evaluate=evaluate)), validation=b"none")
    draft = prepare(user, made)
    assert "The validation file: exampleCount is not declared, the module finds 0" in draft.error
