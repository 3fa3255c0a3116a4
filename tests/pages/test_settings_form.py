"""The settings form, on its own, on the new-job page and on the job page."""

import json

import pytest
from django.urls import reverse

from jobs.forms import JobSettingsForm, SettingsForm, settings_initial
from jobs.models import Job
from tests.pages import factories
from weei_core.training_settings import parse_settings

PLAIN = {
    "epochs": "3",
    "localEpochs": "5",
    "batchSize": "16",
    "learningRate": "0.05",
    "coordinatorParticipates": "on",
    "method": "fedavg",
    "validationEnabled": "on",
    "validationUnit": "round",
    "validationEvery": "1",
    "workers": "1",
    "stragglerFactor": "5",
}


def settings_of(**changes):
    form = SettingsForm({**PLAIN, **changes})
    assert form.is_valid(), form.errors
    return form.settings()


def test_the_form_gives_settings_that_the_core_accepts():
    settings = parse_settings(settings_of(seed="18446744073709551615"), for_experience=False)
    assert (settings.epochs, settings.learning_rate, settings.seed) == (3, 0.05, "18446744073709551615")


def test_an_empty_learning_rate_is_left_to_the_model():
    assert "learningRate" not in settings_of(learningRate="")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("fedavg", {"method": "fedavg"}),
        ("fedavgm", {"method": "fedavgm", "serverLearningRate": 0.5, "momentum": 0.8}),
        ("fedadam", {"method": "fedadam", "serverLearningRate": 0.5, "beta1": 0.7}),
    ],
)
def test_sends_only_the_options_of_the_chosen_method(method, expected):
    options = {"serverLearningRate": "0.5", "momentum": "0.8", "beta1": "0.7"}
    assert settings_of(method=method, **options)["aggregation"] == expected


@pytest.mark.parametrize("aggregation", [{"method": "fedavg"}, {"method": "fedadam", "beta1": 0.5}])
def test_settings_survive_the_way_into_the_form_and_back(aggregation):
    settings = {**factories.SETTINGS, "aggregation": aggregation}
    form = SettingsForm({name: value for name, value in settings_initial(settings).items() if value is not None})
    assert form.is_valid(), form.errors
    given = parse_settings(settings, for_experience=False)
    assert parse_settings(form.settings(), for_experience=False).text == given.text


@pytest.mark.parametrize("value", ["", "0", "-1", "x", "1.5", "1e400", "NaN"])
def test_refuses_passes_that_are_no_number(value):
    form = SettingsForm({**PLAIN, "epochs": value})
    assert not form.is_valid() and "epochs" in form.errors


def test_the_new_job_page_reads_settings_as_json(owner_client):
    response = owner_client.post(reverse("job-new-settings"), PLAIN)
    assert response.json()["settings"]["batchSize"] == 16


def test_the_new_job_page_hears_which_field_is_wrong(owner_client):
    response = owner_client.post(reverse("job-new-settings"), {**PLAIN, "batchSize": "0"})
    assert response.status_code == 422
    assert list(response.json()["errors"]) == ["batchSize"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "fedavgm", "chunks": "1", "hasValidation": "on"}, "FedAvg is the safe choice"),
        ({"chunks": "12"}, "no validation data"),
        ({"chunks": "12", "largestExamples": "1", "hasValidation": "on"}, "one example"),
        ({"chunks": "12", "largestExamples": "50", "hasValidation": "on"}, ""),
        ({"chunks": "0"}, ""),
        ({"chunks": "x"}, ""),
        ({"chunks": "12", "epochs": ""}, ""),
    ],
)
def test_advice_warns_and_never_blocks(changes, words, owner_client):
    response = owner_client.post(reverse("job-new-advice"), {**PLAIN, **changes})
    assert response.status_code == 200
    assert (words in response.content.decode()) if words else not response.content.strip()


def save(client, job, **changes):
    return client.post(reverse("job-settings", args=[job.pk]), {**PLAIN, **changes}, HTTP_HX_REQUEST="true")


def test_saving_counts_from_the_next_round_and_tells_the_page(job, owner_client):
    response = save(owner_client, job, epochs="7", method="fedavgm", momentum="0.5")
    assert "count from the next round" in response.content.decode()
    assert "weei:settings" in response.headers["HX-Trigger"]
    settings = json.loads(Job.objects.get(pk=job.pk).settings_text)
    assert (settings["epochs"], settings["aggregation"]["momentum"]) == (7, 0.5)


def test_a_learning_rate_can_be_taken_away(job, owner_client):
    save(owner_client, job, learningRate="")
    assert "learningRate" not in json.loads(Job.objects.get(pk=job.pk).settings_text)


def test_a_refusal_stands_beside_its_field_and_keeps_what_was_typed(job, owner_client):
    """C77: typed text stays."""
    response = save(owner_client, job, method="fedavgm", momentum="1.5", batchSize="77")
    text = response.content.decode()
    assert "HX-Trigger" not in response.headers
    assert 'value="77"' in text and 'value="1.5"' in text
    problem = text.split('data-problem="momentum"')[1].split("</p>")[0]
    assert "momentum" in problem and "hidden" not in problem
    assert json.loads(Job.objects.get(pk=job.pk).settings_text)["batchSize"] == 16


def test_an_experience_of_another_kind_is_refused_on_top(job, owner_client):
    """A refusal that belongs to no field of the form is shown above it."""
    form = JobSettingsForm(PLAIN)
    assert form.is_valid()
    from weei_core.errors import Invalid

    form.refuse(Invalid("settings.experience belongs to experience jobs.", field="settings.experience"))
    assert form.non_field_errors() == ["settings.experience belongs to experience jobs."]


def test_a_plain_form_comes_back_to_the_job(job, owner_client):
    response = owner_client.post(reverse("job-settings", args=[job.pk]), PLAIN)
    assert response.headers["Location"] == reverse("job-detail", args=[job.pk])


def test_a_plain_form_with_a_mistake_is_a_whole_page(job, owner_client):
    response = owner_client.post(reverse("job-settings", args=[job.pk]), {**PLAIN, "epochs": ""})
    assert "<html" in response.content.decode()


def test_deleting_needs_the_name_typed(job, owner_client):
    where = reverse("job-delete", args=[job.pk])
    wrong = owner_client.post(where, {"confirmation": "something else"}).content.decode()
    assert "Nothing was deleted" in wrong and 'value="something else"' in wrong
    assert Job.objects.filter(pk=job.pk).exists()
    assert owner_client.post(where, {"confirmation": job.name}).headers["Location"] == reverse("job-list")
    assert not Job.objects.filter(pk=job.pk, owner=job.owner).exists()


def test_a_running_job_is_not_deleted(job, owner_client):
    Job.objects.filter(pk=job.pk).update(status="running")
    response = owner_client.post(reverse("job-delete", args=[job.pk]), {"confirmation": job.name})
    assert response.status_code == 409
    assert Job.objects.filter(pk=job.pk).exists()


def test_the_new_job_page_offers_the_shipped_models(owner_client):
    text = owner_client.get(reverse("job-new")).content.decode()
    assert 'data-preset="/presets/digits/preset.json"' in text
    assert "pass through this server" in text
