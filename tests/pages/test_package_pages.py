"""The pages of the package generator: who sees them, what they show of each state, and what a form becomes."""

import json
from dataclasses import asdict
from datetime import timedelta

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Package, PackageFile
from jobs.package_forms import PLACES, PackageForm, form_data, form_of
from jobs.package_urls import urlpatterns
from jobs.selectors.packages import SHOWN_TOKENS, shown_token
from tests.pages import factories
from weei_core.generator.inspection.found import Column, Found
from weei_core.generator.request import PackageRequest
from weei_core.generator.suggestion import suggested

HTMX = {"HTTP_HX_REQUEST": "true"}
NASTY = "<script>alert(1)</script>"
COLUMNS = (Column("height", True, True, 40), Column("weight", True, False, 7), Column("kind", False, False, 2))
TABLE = Found("csv", 200, 5_000, COLUMNS, (("1", "2.5", "high"),), label="kind", classes=(("high", 120), ("low", 80)))
LINES = Found(
    "jsonl", 50, 900, (Column("q", False, False, 9), Column("a", False, False, 5)), (("1+1=", "2"),), characters=12
)
TEXT = Found("text", 30, 800, rows=(("Once upon a time",),), characters=40)
ARRAYS = Found(
    "npz",
    9,
    700,
    (Column("x", True, True, 0, (9, 4, 4), "uint8"), Column("y", True, True, 0, (9,), "int64")),
    label="y",
)
PICTURES = Found("images", 12, 400, rows=(("1.png", "cats"),), classes=(("cats", 6), ("dogs", 6)))
EVERY = {found.format: found for found in (TABLE, LINES, TEXT, ARRAYS, PICTURES)}
# name → (method, arguments, is it of one package)
PAGES = {
    "package-list": ("get", {}, False),
    "package-new": ("post", {}, False),
    "package": ("get", {}, True),
    "package-progress": ("get", {}, True),
    "package-sizes": ("post", {}, True),
    "package-action": ("post", {"action": "cancel"}, True),
    "package-start": ("post", {}, True),
    "package-delete": ("get", {}, True),
}


def make_package(owner, found=TABLE, **fields):
    request = json.dumps(suggested(found, "people")) if found else ""
    values = {
        "source_name": "people.csv",
        "state": "done",
        "request_text": request,
        "found_text": json.dumps(asdict(found)) if found else "",
        "touched": timezone.now(),
    }
    return Package.objects.create(owner=owner, source=factories.make_artifact(), **{**values, **fields})


def previewed(package, *, records=(), table=None, warnings=(), **fields):
    preview = {
        "records": list(records),
        "table": table,
        "exact": True,
        "record_count": 180,
        "validation_count": 20,
        "chunk_count": 6,
        "chunk_bytes": 900,
        "vocabulary_size": 257 if records else None,
        "parameter_count": 1_234,
        "weight_bytes": 4_936,
        "memory_bytes": 5_000_000,
        "warnings": [["code", text] for text in warnings],
        **fields,
    }
    package.preview_text = json.dumps({"request": json.loads(package.request_text), "preview": preview})
    package.save()
    return package


def made(package, **fields):
    for kind, name in (("module", "model.wasm"), ("manifest", "manifest.json"), ("chunk", "chunk-1.bin")):
        artifact = factories.make_artifact()
        PackageFile.objects.create(package=package, artifact=artifact, kind=kind, file_name=name, crc32=1)
    about = {"name": "people", "request": json.loads(package.request_text), "settings": {"epochs": 3}}
    package.made_text = json.dumps({**about, "warnings": ["One chunk only."], "records": 180, **fields})
    package.save()
    return package


@pytest.fixture
def package(owner):
    return make_package(owner)


def address(name, package):
    _, arguments, of_one = PAGES[name]
    return reverse(name, kwargs={**arguments, **({"package_id": package.pk} if of_one else {})})


def shown(client, package):
    response = client.get(reverse("package", args=[package.pk]))
    assert response.status_code == 200
    return response.content.decode()


def test_lists_every_address():
    assert {pattern.name for pattern in urlpatterns} == set(PAGES)


@pytest.mark.parametrize("name", [name for name in PAGES if PAGES[name][2]])
def test_a_stranger_gets_404(name, package, stranger_client):
    response = getattr(stranger_client, PAGES[name][0])(address(name, package))
    assert response.status_code == 404
    assert "people.csv" not in response.content.decode()


@pytest.mark.parametrize("name", PAGES)
def test_nobody_is_sent_to_the_sign_in_page(name, package, client):
    response = getattr(client, PAGES[name][0])(address(name, package))
    assert response.status_code == 302 and response["Location"].startswith(reverse("login"))


@pytest.mark.parametrize("name", PAGES)
def test_refuses_the_wrong_method(name, package, owner_client):
    wrong = {"get": "put", "post": "get"}[PAGES[name][0]]
    assert getattr(owner_client, wrong)(address(name, package)).status_code == 405


@pytest.mark.parametrize("name", [name for name in PAGES if PAGES[name][0] == "post"])
def test_refuses_a_post_without_a_csrf_token(name, package, owner):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert strict.post(address(name, package)).status_code == 403
    assert strict.post(address("package", package)).status_code == 403


def test_the_list_shows_ones_own_packages_only(package, owner_client, stranger_client):
    assert "people.csv" in owner_client.get(reverse("package-list")).content.decode()
    theirs = stranger_client.get(reverse("package-list")).content.decode()
    assert "people.csv" not in theirs and "No packages yet" in theirs


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"state": "queued", "task": "inspect"}, "Looking at the file"),
        ({"state": "working", "task": "make"}, "Making the package"),
        ({"state": "failed"}, "Needs a look"),
        ({"state": "done"}, "Not made yet"),
        ({"state": "done", "made_text": "{}"}, "Ready"),
    ],
)
def test_the_list_says_how_far_each_is(fields, word, owner, owner_client):
    make_package(owner, **fields)
    assert word in owner_client.get(reverse("package-list")).content.decode()


def test_a_package_at_work_shows_how_far_it_is_and_nothing_to_change(owner, owner_client):
    package = make_package(owner, state="working", task="make", step="Writing the chunks", done=3, total=9)
    text = shown(owner_client, package)
    assert "Writing the chunks" in text and '<progress class="thick" max="9" value="3"' in text
    assert "Stop" in text and "package-form" not in text
    panel = owner_client.get(reverse("package-progress", args=[package.pk]), **HTMX)
    assert panel.status_code == 200 and "data-marker" in panel.content.decode()


def test_the_page_is_fetched_again_when_the_work_has_ended(package, owner_client):
    response = owner_client.get(reverse("package-progress", args=[package.pk]), **HTMX)
    assert response["HX-Refresh"] == "true"


@pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)
def test_what_was_found_is_shown_with_a_form_of_its_kind(found, owner, owner_client):
    text = shown(owner_client, make_package(owner, found))
    assert "What is in the file" in text and "package-make" in text
    assert ('id="id_tokenizer"' in text) == (found.format in ("text", "jsonl"))
    assert ('id="id_hiddenLayers"' in text) == (found.format in ("csv", "npz", "images"))
    assert 'id="id_name_error" data-problem="name" hidden' in text


@pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)
def test_a_suggestion_comes_back_from_its_form_as_it_was(found):
    request = suggested(found, "people")
    form = form_of(request, found)
    assert form.is_valid(), form.errors
    assert PackageRequest.parse(form.request) == PackageRequest.parse(request)
    again = form_of(form.request, found)
    assert again.is_valid() and again.request == form.request


def test_every_field_has_a_place_in_the_request_or_only_chooses():
    assert set(PackageForm.base_fields) - set(PLACES) == {"parts"}


def sent(found=TABLE, **changes):
    """A form as a browser sends it."""
    values = {**form_data(suggested(found, "people")), "columns": ["height", "weight"], **changes}
    data = QueryDict(mutable=True)
    for name, value in values.items():
        data.setlist(name, value if isinstance(value, list) else [value])
    return data


@pytest.mark.parametrize(
    ("found", "changes", "field"),
    [
        (TABLE, {"batchSize": "0"}, "batchSize"),
        (TABLE, {"hiddenLayers": "8, many"}, "hiddenLayers"),
        (TABLE, {"hiddenLayers": "8, 0"}, "hiddenLayers"),
        (TABLE, {"validationPercent": "95"}, "validationPercent"),
        (TABLE, {"learningRate": "200"}, "learningRate"),
        (TABLE, {"chunkSeed": "-1"}, "chunkSeed"),
        (TABLE, {"label": "size"}, "label"),
        (TABLE, {"columns": []}, "columns"),
        (TEXT, {"heads": "5"}, "width"),
        (TEXT, {"tokenizer": "bpe", "merges": "99999999"}, "merges"),
        (LINES, {"prompt": "q", "answer": "q"}, "answer"),
        (PICTURES, {"imageWidth": "9000"}, "imageWidth"),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field(found, changes, field):
    form = PackageForm(sent(found, **changes), found=found)
    assert not form.is_valid() and set(form.errors) == {field}, form.errors


def test_the_label_is_no_input_even_when_it_is_ticked():
    form = PackageForm(sent(label="weight", task="regression", columns=["height", "weight"]), found=TABLE)
    assert form.is_valid() and form.request["data"]["columns"] == ["height"]


def test_of_a_wide_table_every_column_of_numbers_is_an_input():
    columns = tuple(Column(f"c{at}", True, True, 5) for at in range(100))
    wide = Found(
        "csv", 50, 900, (*columns, Column("note", False, False, 9), Column("kind", False, False, 2)), label="kind"
    )
    form = form_of(suggested(wide, "wide"), wide)
    assert "columns" not in form.fields and form.is_valid(), form.errors
    assert form.request["data"]["columns"] == [column.name for column in columns]


def test_fields_of_other_choices_do_not_count():
    form = PackageForm(sent(TEXT, tokenizer="bytes", merges="12", base="bytes"), found=TEXT)
    assert form.is_valid() and form.request["tokenizer"] == {"kind": "bytes"}
    form = PackageForm(sent(LINES, parts="text", text="a"), found=LINES)
    assert form.is_valid() and form.request["data"] == {"format": "jsonl", "text": "a"}


def test_the_sizes_are_told_while_one_types(package, owner_client):
    where = reverse("package-sizes", args=[package.pk])
    small = owner_client.post(where, sent(hiddenLayers="8").dict() | {"columns": ["height", "weight"]}, **HTMX)
    assert "<dd>42</dd>" in small.content.decode()
    wrong = owner_client.post(where, sent(hiddenLayers="8,x").dict() | {"columns": ["height"]}, **HTMX)
    assert "hidden[1]" in wrong.content.decode() and wrong.status_code == 200


@pytest.mark.parametrize(("do", "task"), [("preview", "preview"), ("make", "make"), ("", "preview")])
def test_the_form_asks_for_what_its_button_says(do, task, package, owner_client):
    where = reverse("package", args=[package.pk])
    values = sent(hiddenLayers="8").dict() | {"columns": ["height", "weight"], "do": do}
    response = owner_client.post(where, values)
    assert response["Location"] == reverse("package", args=[package.pk])
    package.refresh_from_db()
    assert (package.task, package.state) == (task, "queued")
    assert json.loads(package.request_text)["architecture"]["hidden"] == [8]


def test_a_form_that_does_not_fit_comes_back_with_what_was_typed(package, owner_client):
    values = sent(hiddenLayers="8", batchSize="0").dict() | {"columns": ["height"], "do": "make"}
    text = owner_client.post(reverse("package", args=[package.pk]), values).content.decode()
    assert 'data-problem="batchSize">training.batchSize must be' in text
    assert 'value="8"' in text and 'aria-invalid="true"' in text
    package.refresh_from_db()
    assert package.state == "done"


def test_a_failure_is_said_beside_its_field_and_on_top(owner, owner_client):
    package = make_package(
        owner,
        state="failed",
        task="make",
        error="Line 7: x.\nLine 9: y.",
        error_field="data.label",
        error_code="invalid",
    )
    text = shown(owner_client, package)
    assert "The package was not made." in text and "Line 7: x.<br>Line 9: y." in text
    assert 'data-problem="label">Line 7' in text
    assert "/help/errors#invalid" in text


def test_a_file_that_was_not_understood_can_be_looked_at_again(owner, owner_client):
    package = make_package(owner, None, state="failed", error="The text must be UTF-8.", error_code="invalid")
    text = shown(owner_client, package)
    assert "The file cannot be used as it is." in text and "package-inspect" in text and "package-make" not in text
    owner_client.post(reverse("package-action", args=[package.pk, "inspect"]))
    package.refresh_from_db()
    assert (package.task, package.state, package.error) == ("inspect", "queued", "")


def test_unknown_actions_are_404(package, owner_client):
    assert owner_client.post(reverse("package-action", args=[package.pk, "explode"])).status_code == 404


def test_tokens_are_boxes_that_can_be_seen_and_heard():
    assert shown_token(" a\n", trained=True) == (shown_token(" a\n", trained=True))
    token = shown_token(" a\n", trained=False)
    assert (token.text, token.said) == ("␣a⏎", "space a new line")


def test_the_preview_shows_how_records_are_cut(owner, owner_client):
    record = {"line": 3, "text": "1+1=2", "tokens": ["1", "+", "1", "=", "2", "<end>"], "trained_from": 4}
    long = {"line": None, "text": "", "tokens": ["x"] * (SHOWN_TOKENS + 5), "trained_from": None}
    package = previewed(make_package(owner, LINES), records=[record, long], warnings=["Joins digits."])
    text = shown(owner_client, package)
    assert '<li class="trained"><span aria-hidden="true">2</span><span class="visually-hidden">2, learned' in text
    assert '<li><span aria-hidden="true">+</span>' in text
    assert "and 5 more" in text and "Joins digits." in text and "Line 3, 6 tokens" in text
    assert 'id="preview-stale" hidden' in text
    package.request_text = json.dumps({**json.loads(package.request_text), "name": "another"})
    package.save()
    assert 'id="preview-stale">' in shown(owner_client, package)


def test_a_made_package_is_offered_as_files_and_as_a_job(package, owner_client):
    made(package)
    text = shown(owner_client, package)
    assert f'href="/bytes/packages/{package.pk}"' in text and "Start a job from it" in text
    assert "180 records in 1 chunk" in text and "One chunk only." in text
    assert "before the last change" not in text
    package.request_text = json.dumps({**json.loads(package.request_text), "name": "another"})
    package.save()
    assert "before the last change" in shown(owner_client, package)


def test_a_job_is_begun_for_a_script_and_for_a_plain_form(package, owner_client):
    where = reverse("package-start", args=[package.pk])
    refused = owner_client.post(where, headers={"Accept": "application/json"})
    assert refused.status_code == 409 and refused.json()["code"] == "conflict"
    made(package)
    answer = owner_client.post(where, headers={"Accept": "application/json"})
    assert answer.status_code == 202 and answer.json()["state"] == "queued"
    assert owner_client.post(where)["Location"] == reverse("job-list")


def test_a_file_that_was_not_uploaded_is_refused_with_a_code(owner_client):
    answer = owner_client.post(reverse("package-new"), {"fileName": "a.csv", "sha256": "0" * 64})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_uploaded")
    answer = owner_client.post(reverse("package-new"), {"fileName": "../a", "sha256": "0"})
    assert answer.status_code == 422


def test_deleting_asks_first(package, owner_client):
    where = reverse("package-delete", args=[package.pk])
    assert "Delete this package?" in owner_client.get(where).content.decode()
    assert owner_client.post(where)["Location"] == reverse("package-list")
    assert not Package.objects.exists()


def test_names_from_files_are_shown_as_text(owner, owner_client):
    """H6: a header, a class, a token and a file name are somebody's text."""
    found = Found(
        "csv", 3, 90, (Column(NASTY, True, True, 3), Column("kind", False, False, 2)), ((NASTY, NASTY),), label="kind",
        classes=((NASTY, 2), ("b", 1)),
    )  # fmt: skip
    package = previewed(
        make_package(owner, found, source_name=NASTY),
        table={"columns": [NASTY], "rows": [[NASTY]], "classes": [NASTY]},
        warnings=[NASTY],
    )
    made(package, warnings=[NASTY])
    for text in (shown(owner_client, package), owner_client.get(reverse("package-list")).content.decode()):
        assert "alert(1)" in text and NASTY not in text


def test_pages_need_few_queries(owner, owner_client, django_assert_max_num_queries):
    for _ in range(5):
        made(make_package(owner, touched=timezone.now() - timedelta(days=1)))
    with django_assert_max_num_queries(6):
        owner_client.get(reverse("package-list"))
    with django_assert_max_num_queries(8):
        owner_client.get(reverse("package", args=[Package.objects.first().pk]))
