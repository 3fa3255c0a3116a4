"""The comparison of jobs: whose they may be, what is said of model and data, and what differs."""

import json
from uuid import uuid4

import pytest
from django.urls import reverse

from jobs.models import Chunk
from jobs.selectors.compared_jobs import DASHES, compare_jobs
from tests.pages import factories
from tests.pages.test_panels import _queries


def job_like(job, **fields):
    same = {"dataset": job.dataset, "module": job.module, "validation_file": job.validation_file}
    other = factories.make_job(job.owner, name="The other one", **{"dataset": job.dataset})
    for name, value in {**same, **fields}.items():
        setattr(other, name, value)
    other.save()
    return other


def page(client, *jobs):
    return client.get(reverse("job-compare"), {"job": [str(getattr(job, "pk", job)) for job in jobs]})


def sentences(*jobs):
    return [finding.sentence for finding in compare_jobs(jobs).findings]


def test_two_jobs_of_one_model_and_the_same_data_say_so(job):
    assert sentences(job, job_like(job)) == ["These two trained the same model on the same data."]


def test_the_same_chunks_uploaded_twice_are_the_same_data(job):
    copy = factories.make_dataset(0)
    for chunk in job.dataset.chunks.all():
        Chunk.objects.create(
            dataset=copy, index=chunk.index, chunk_id=f"other-{chunk.index}", file_name="x", artifact=chunk.artifact,
            bytes=1, format="f", example_count=1, first_example=chunk.index,
        )  # fmt: skip
    assert sentences(job, job_like(job, dataset=copy)) == ["These two trained the same model on the same data."]


def test_other_data_another_model_and_another_validation_file_are_each_told(job):
    other = factories.make_job(job.owner)
    found = " ".join(sentences(job, other, job_like(job)))
    assert "These 3 trained on different data." in found
    assert "different models" in found and "validated on different files" in found


def test_jobs_that_make_their_own_data_have_no_data_to_differ_in(owner):
    first = factories.make_experience_job(owner)
    second = factories.make_experience_job(owner)
    second.module = first.module
    second.save()
    assert sentences(first, second) == ["These two trained the same model on what it makes itself."]


def test_only_settings_with_different_values_differ(job):
    settings = {**factories.SETTINGS, "batchSize": 64, "aggregation": {"method": "fedadam", "beta1": 0.8}}
    del settings["learningRate"]
    comparison = compare_jobs([job, job_like(job, settings_text=json.dumps(settings), job_seed=job.job_seed)])
    differing = {fact.name: list(fact.values) for fact in comparison.facts if fact.differs}
    assert differing == {
        "Batch size": ["16", "64"],
        "Learning rate": ["0.05", "the model's own"],
        "Merge method": ["fedavg", "fedadam"],
        "Beta 1": [None, "0.8"],
    }
    assert comparison.differing == 4
    assert any(fact.name == "Local epochs" and not fact.differs for fact in comparison.facts)


def test_a_setting_without_a_label_is_shown_by_its_name(job):
    other = job_like(job, settings_text=json.dumps({**factories.SETTINGS, "brandNew": {"depth": True}}))
    fact = next(fact for fact in compare_jobs([job, other]).facts if fact.name == "brandNew.depth")
    assert list(fact.values) == [None, "yes"]


def test_six_jobs_have_six_looks(job):
    looks = compare_jobs([job, *(job_like(job) for _ in range(5))]).jobs
    assert len({(look.tone, look.dash) for look in looks}) == len({look.tone for look in looks}) == len(DASHES) == 6


def test_the_page_names_every_job_and_hides_what_is_the_same(job, owner_client):
    other = job_like(job, settings_text=json.dumps({**factories.SETTINGS, "batchSize": 64}))
    text = page(owner_client, job, other, job).content.decode()
    assert text.count('data-url="/jobs/') == 2
    assert '<tr><th scope="row">Batch size</th><td>16</td><td>64</td></tr>' in text
    assert '<tr data-same hidden><th scope="row">Local epochs</th>' in text


def test_fewer_than_two_let_the_person_choose(job, owner_client):
    job_like(job)
    text = page(owner_client, job).content.decode()
    assert text.count('type="checkbox" name="job"') == 2 and text.count("checked") == 1
    assert "compare.js" not in text


def test_somebody_without_jobs_is_led_to_make_one(stranger_client):
    assert reverse("job-new") in stranger_client.get(reverse("job-compare")).content.decode()


def test_more_than_six_are_refused_with_a_sentence(job, owner_client):
    response = page(owner_client, job, *(job_like(job) for _ in range(6)))
    assert response.status_code == 400
    assert "Choose 2 to 6 jobs; 7 were chosen." in response.content.decode()


@pytest.mark.parametrize("other", [uuid4(), "x", ""])
def test_a_job_that_is_nobodys_does_not_exist(other, job, owner_client):
    assert page(owner_client, job, other).status_code == 404


def test_a_job_of_somebody_else_does_not_exist(job, stranger_client):
    assert page(stranger_client, job).status_code == 404


def test_the_number_of_queries_does_not_grow(job, owner_client):
    def queries(*jobs):
        return _queries(owner_client, f"{reverse('job-compare')}?{'&'.join(f'job={one.pk}' for one in jobs)}")

    others = [job_like(job) for _ in range(5)]
    assert queries(job, others[0]) == queries(job, *others)
