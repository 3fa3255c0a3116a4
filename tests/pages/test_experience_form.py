"""The settings form of jobs whose model makes its own data: rounds, the model's own unit, Workers, evaluation."""

import json
import re

import pytest
from django.urls import reverse

from jobs.forms import ContinueForm, SettingsForm, settings_initial
from jobs.models import Job
from jobs.selectors.kind import Kind
from tests.pages import factories
from weei_core.model_info import parse_model_info
from weei_core.training_settings import parse_settings

PLAIN = {
    "epochs": "30",
    "unitsPerAssignment": "32",
    "localEpochs": "1",
    "batchSize": "16",
    "coordinatorParticipates": "on",
    "method": "fedavg",
    "validationEnabled": "on",
    "validationEvery": "5",
    "workers": "2",
    "stragglerFactor": "5",
}
SOURCE = json.dumps(factories.CARTPOLE["workSource"])


def kind(*, inspected=True, **source):
    """CartPole's kind, `source` over its workSource; `inspected` when its module was read."""
    work = {**factories.CARTPOLE["workSource"], **source}
    reads = {"dataFormats": factories.MODEL_INFO["dataFormats"]} if work["inputs"] == "dataset" else {}
    info = parse_model_info({**factories.CARTPOLE, **reads, "workSource": work})
    return Kind(info.work_source, info if inspected else None)


def labels(form):
    return {bound.name: str(bound.label) for bound in form}


def test_asks_for_rounds_and_the_models_own_unit():
    asked = labels(SettingsForm(kind=kind()))
    assert (asked["epochs"], asked["unitsPerAssignment"]) == ("Rounds", "Episodes per round")
    assert asked["validationEnabled"] == "Evaluate on a schedule" and "validationUnit" not in asked


def test_a_dataset_job_is_asked_for_neither_units_nor_workers():
    asked = labels(SettingsForm())
    assert asked["epochs"] == "Dataset passes"
    assert not {"unitsPerAssignment", "workers"} & set(asked)


@pytest.mark.parametrize(("units", "right"), [("1", False), ("2", True), ("4096", True), ("4097", False), ("", False)])
def test_units_stay_within_the_models_bounds(units, right):
    form = SettingsForm({**PLAIN, "unitsPerAssignment": units}, kind=kind())
    assert form.is_valid() is right
    assert right or list(form.errors) == ["unitsPerAssignment"]


def test_units_begin_with_the_models_default():
    assert 'value="32"' in str(SettingsForm(kind=kind())["unitsPerAssignment"])


def test_gives_settings_that_the_core_accepts():
    form = SettingsForm(PLAIN, kind=kind())
    assert form.is_valid(), form.errors
    settings = parse_settings(form.settings(), for_experience=True, info=kind().info)
    assert (settings.epochs, settings.units_per_assignment, settings.workers) == (30, 32, 2)
    assert settings.validation_schedule.to_json() == {"enabled": True, "unit": "round", "every": 5}


def test_settings_survive_the_way_into_the_form_and_back():
    form = SettingsForm(settings_initial(factories.EXPERIENCE_SETTINGS), kind=kind())
    assert form.is_valid(), form.errors
    given = parse_settings(factories.EXPERIENCE_SETTINGS, for_experience=True)
    assert parse_settings(form.settings(), for_experience=True).text == given.text


@pytest.mark.parametrize(
    ("of", "asked"),
    [
        (kind(), True),
        (kind(inspected=False), True),
        (kind(inputs="dataset"), False),
        (Kind(kind().source, parse_model_info({**factories.CARTPOLE, "maxWorkers": 1})), False),
    ],
    ids=["several", "not read yet", "over records", "one only"],
)
def test_asks_for_workers_where_several_may_share_a_part(of, asked):
    assert ("workers" in SettingsForm(kind=of).fields) is asked


@pytest.mark.parametrize(("workers", "right"), [("0", False), ("1", True), ("64", True), ("65", False)])
def test_workers_are_1_to_64(workers, right):
    assert SettingsForm({**PLAIN, "workers": workers}, kind=kind()).is_valid() is right


def test_a_model_that_evaluates_nothing_is_not_asked_when():
    form = SettingsForm(PLAIN, kind=kind(evaluationUnits=0))
    assert form.is_valid() and "validationSchedule" not in form.settings()


def test_over_records_validation_counts_in_rounds_and_no_units_are_asked():
    form = SettingsForm(PLAIN, kind=kind(inputs="dataset"))
    assert form.is_valid() and labels(form)["validationEnabled"] == "Validate on a schedule"
    assert form.settings()["validationSchedule"]["unit"] == "round"
    assert "experience" not in form.settings()


def test_says_whose_meaning_the_numbers_have():
    text = " ".join(str(SettingsForm(kind=kind())[name].help_text) for name in ("localEpochs", "batchSize"))
    assert text.count("the model") == 2


@pytest.mark.parametrize(("last", "right"), [("397", False), ("396", False), ("398", True), ("500", True)])
def test_the_last_round_is_above_that_of_the_checkpoint(last, right):
    form = ContinueForm({**PLAIN, "epochs": last}, kind=kind(), from_round=397)
    assert form.is_valid() is right
    assert right or "of round 397" in form.errors["epochs"][0]


def test_passes_of_a_continued_dataset_job_count_anew():
    plain = {**PLAIN, "epochs": "1", "validationUnit": "round"}
    assert ContinueForm(plain, from_round=397).is_valid()


def test_says_how_many_rounds_are_left():
    form = ContinueForm(initial={"epochs": 500}, kind=kind(), from_round=397)
    assert "From round 397 on, 500 trains 103 more." in form["epochs"].help_text
    assert 'data-from-round="397"' in str(form["epochs"])


def test_a_checkpoint_in_a_file_has_a_round_that_nobody_knows_yet():
    assert "397 with 500 trains 103 more" in ContinueForm(kind=kind())["epochs"].help_text
    assert "397" not in SettingsForm(kind=kind())["epochs"].help_text


# --- Over HTTP ---


def test_another_manifest_brings_other_fields_and_keeps_what_was_typed(owner_client):
    typed = {**PLAIN, "epochs": "3", "batchSize": "77", "method": "fedavgm", "momentum": "0.5", "workSource": SOURCE}
    del typed["coordinatorParticipates"]
    text = owner_client.post(reverse("job-new-fields"), typed).content.decode()
    assert "Episodes per round" in text and "20 episodes" in text
    assert 'value="77"' in text and 'value="0.5"' in text
    assert re.search(r'name="epochs" value="30"', text)
    assert not re.search(r'name="coordinatorParticipates"[^>]* checked', text)
    assert "397" not in text
    file = owner_client.post(reverse("job-new-fields"), {**typed, "fromRound": ""}).content.decode()
    assert "a checkpoint of round 397" in file
    back = owner_client.post(reverse("job-new-fields"), {**typed, "workSource": ""}).content.decode()
    assert "Dataset passes" in back and "Episodes" not in back


def test_a_package_that_makes_no_sense_is_said_at_once(owner_client):
    wrong = json.dumps({**factories.CARTPOLE["workSource"], "inputs": "dreams"})
    text = owner_client.post(reverse("job-new-fields"), {**PLAIN, "workSource": wrong}).content.decode()
    assert "package.workSource.inputs" in text and "dreams" in text and 'role="alert"' in text
    response = owner_client.post(reverse("job-new-settings"), {**PLAIN, "workSource": wrong})
    assert response.status_code == 422 and "dreams" in response.json()["errors"]["manifest"]
    assert not owner_client.post(reverse("job-new-advice"), {**PLAIN, "workSource": wrong}).content.strip()


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"', "[" * 9_000])
def test_what_is_no_work_source_is_refused_in_words(text, owner_client):
    response = owner_client.post(reverse("job-new-settings"), {**PLAIN, "workSource": text})
    assert response.status_code == 422 and response.json()["errors"]["manifest"].startswith("package.workSource")


def test_labels_from_a_package_are_text(owner_client):
    evil = {**factories.CARTPOLE["workSource"], "unit": {"id": "e", "label": '"><img src=x onerror=window.pwn=1>'}}
    response = owner_client.post(reverse("job-new-fields"), {**PLAIN, "workSource": json.dumps(evil)})
    assert "<img" not in response.content.decode() and "&lt;img" in response.content.decode()


def test_the_new_job_page_reads_experience_settings_as_json(owner_client):
    response = owner_client.post(reverse("job-new-settings"), {**PLAIN, "workSource": SOURCE})
    assert response.json()["settings"]["experience"] == {"unitsPerAssignment": 32}


def test_the_continue_page_hears_of_a_last_round_that_is_behind(owner_client):
    data = {**PLAIN, "workSource": SOURCE, "fromRound": "397", "epochs": "397"}
    response = owner_client.post(reverse("job-new-settings"), data)
    assert response.status_code == 422 and list(response.json()["errors"]) == ["epochs"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"validationEnabled": ""}, "Evaluation is off"),
        ({"unitsPerAssignment": "2"}, ""),
        ({"method": "fedavgm"}, ""),
    ],
)
def test_advice_about_a_model_that_makes_its_own_data(changes, words, owner_client):
    data = {**PLAIN, **changes, "workSource": SOURCE}
    if not data["validationEnabled"]:
        del data["validationEnabled"]
    text = owner_client.post(reverse("job-new-advice"), data).content.decode()
    assert (words in text) if words else not text.strip()


@pytest.fixture
def pole(owner):
    return factories.make_experience_job(owner)


def save(client, job, **changes):
    return client.post(reverse("job-settings", args=[job.pk]), {**PLAIN, **changes}, HTTP_HX_REQUEST="true")


def test_settings_of_an_experience_job_are_saved(pole, owner_client):
    assert "Saved" in save(owner_client, pole, epochs="50", unitsPerAssignment="64", workers="4").content.decode()
    settings = json.loads(Job.objects.get(pk=pole.pk).settings_text)
    assert (settings["epochs"], settings["experience"], settings["workers"]) == (50, {"unitsPerAssignment": 64}, 4)


def test_the_job_page_asks_for_its_own_kind(pole, owner_client):
    text = owner_client.get(reverse("job-detail", args=[pole.pk])).content.decode()
    assert "Episodes per round" in text and "Dataset passes" not in text
    assert "The model allows 4" in text


def test_continuing_proposes_as_many_rounds_again(owner, owner_client):
    job = factories.make_experience_job(owner, next_unit=1920)
    factories.make_checkpoint(job, 30, validated=False, next_unit=1920)
    text = owner_client.get(reverse("job-continue-from", args=[job.pk, 30])).content.decode()
    assert "From round 30 on, 60 trains 30 more." in text
    assert "1,920 episodes played" in text and "Nothing else is needed" in text
    assert 'name="fromRound" value="30"' in text
    assert re.search(r'id="mode-resume" checked', text)
    source = text.split('name="workSource" value="')[1].split('"')[0]
    assert json.loads(source.replace("&quot;", '"')) == factories.CARTPOLE["workSource"]


def test_a_continued_job_begins_with_the_manifest_of_the_old_one(owner, owner_client, stranger_client, job):
    package = '{"schema": "weei-model-package", "x": 1.0}'
    pole = factories.make_experience_job(owner, package_text=package)
    where = reverse("job-manifest", args=[pole.pk])
    assert owner_client.get(where).content.decode() == package
    assert stranger_client.get(where).status_code == 404
    assert owner_client.get(reverse("job-manifest", args=[job.pk])).content.decode() == job.dataset.manifest_text
