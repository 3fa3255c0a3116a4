"""The main job, end to end: Chromium coordinates, Chromium and Firefox train, three passes over the digits."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.people import CHUNKS, Coordinator, Participant, undisturbed
from tests.stack.model_jobs import FACTS

# No exception, no console error, no policy violation and no failed request on any page, after every test.
pytestmark = pytest.mark.usefixtures("nobody_complains")
PASSES = 3
READER = Path(__file__).with_name("read_checkpoint.mjs")
RECORD_PROGRESS = """() => new MutationObserver(() => {
  for (const row of document.querySelectorAll("#creation-files li")) reportRow(row.innerText);
}).observe(document.getElementById("creation-files"), { childList: true, subtree: true, characterData: true })"""


@pytest.fixture(scope="module")
def olga(stack, chromium):
    with Coordinator(chromium, "olga", accept_downloads=True) as person:
        yield person.sign_in(stack)


@pytest.fixture(scope="module")
def job(stack, olga):
    """The id of a job that Olga made from files of her own."""
    rows = []
    olga.context.expose_function("reportRow", lambda row: rows.append(row))
    olga.page.get_by_role("link", name="New job").click()
    olga.choose_files()
    fill_settings(olga.page, passes=PASSES, participates=False)
    expect(olga.page.locator("#chosen-files li")).to_have_count(len(CHUNKS) + 3)
    olga.page.evaluate(RECORD_PROGRESS)
    made = olga.create()
    names = ["digits.wasm", "manifest.json", "validation.bin", *(path.name for path in CHUNKS)]
    for name in names:
        assert any(row.startswith(name) and "sent" in row for row in rows), (name, sorted(set(rows)))
    return made


def fill_settings(page, *, passes, participates):
    page.locator("#id_epochs").fill(str(passes))
    page.locator("#id_localEpochs").fill("5")
    page.locator("#id_batchSize").fill("16")
    page.locator("#id_learningRate").fill("0.05")
    page.locator("#id_coordinatorParticipates").set_checked(participates)
    page.locator("#id_validationEnabled").check()
    page.locator("#id_validationUnit").select_option("round")
    page.locator("#id_validationEvery").fill("1")


@pytest.fixture(scope="module")
def people(stack, olga, job, chromium, firefox):
    """Bob in Chromium and Carol in Firefox, who looked at the invitation and accepted it."""
    link = olga.invite(uses=5)
    expect(olga.page.locator("#new-invitation svg")).to_be_visible()
    expect(olga.page.locator("#panel-invitations")).to_contain_text("0 of 5 used")
    with Participant(chromium, "bob") as bob, Participant(firefox, "carol") as carol:
        for person in (bob, carol):
            person.open(link)
            check_invitation(person, stack, job)
            person.accept()
        yield bob, carol


def check_invitation(person, stack, job):
    """Everything a person needs to decide is there, and nothing of the model or its data was fetched for it."""
    facts = stack.shell(
        "from jobs.models import Job\njob = Job.objects.get(pk=job_id)\nanswer = [job.module_id, job.name]", job_id=job
    )
    card = person.page.locator("#join-card")
    for text in (
        *facts,
        "olga",
        "digits.wasm",
        "12 chunks, 1,500 examples",
        "5 local epochs, batches of 16",
        "FedAvg",
    ):
        expect(card).to_contain_text(text)
    assert not re.search(r"\bundefined\b|\bnull\b|NaN", card.inner_text())
    assert person.fetched("/api/v1/invitations/open"), person.requests
    assert not person.fetched("/bytes/"), person.requests


@pytest.fixture(scope="module")
def finished(stack, olga, job, people):
    """What the database says after the three passes."""
    olga.start(active=2)
    olga.wait_until_completed(120)
    facts = stack.shell(FACTS, job_id=job)
    return wait_for_validation(stack, job, facts)


def wait_for_validation(stack, job, facts):
    def validated():
        facts.update(stack.shell(FACTS, job_id=job))
        return all(facts["validation"])

    stack.wait(validated, 60, "the validation of every checkpoint")
    return facts


def test_three_passes_train_every_chunk_exactly_once_each(finished):
    assert finished["status"] == "completed" and finished["error"] == ""
    assert finished["rounds"] == list(range(PASSES * len(CHUNKS) // 2 + 1))
    everything = sorted({chunk for _, chunk in finished["trained"]})
    assert len(everything) == len(CHUNKS)
    assert sorted(finished["trained"]) == [[turn, chunk] for turn in range(PASSES) for chunk in everything]
    undisturbed(finished)


def test_the_model_reads_digits_it_never_saw(finished):
    accuracy = json.loads(finished["validation"][-1])["metrics"]["accuracy"]
    assert accuracy >= 0.93


def test_the_job_page_shows_how_it_went(finished, olga, job, stack):
    page = olga.open_job(stack, job).page
    last = finished["rounds"][-1]
    expect(page.locator("#panel-overview .badge").first).to_have_text("Completed")
    accuracy = json.loads(finished["validation"][-1])["metrics"]["accuracy"]
    toggles = page.locator("#chart-toggles label")
    expect(page.locator("#chart canvas")).to_be_visible()
    expect(toggles).to_have_count(4)
    validated = toggles.filter(has_text=re.compile("Accuracy, validation"))
    expect(validated.locator("output")).to_have_text(f"{accuracy:.4g}")
    rows = page.locator("#panel-checkpoints tbody tr")
    expect(rows.first.locator("th")).to_contain_text(str(last))
    expect(rows).to_have_count(8)
    expect(page.locator("#panel-checkpoints .badge")).to_have_count(0)
    page.get_by_role("link", name="All checkpoints").click()
    expect(page.locator("tbody tr")).to_have_count(last + 1)
    page.go_back()


def test_participants_are_thanked_and_did_the_work_between_them(finished, people, stack, job):
    """C79: two participants are two, and the coordinator, who does not train, is none."""
    for person in people:
        expect(person.page.locator("#train-done")).to_be_visible()
        # What was not fetched before Accept was fetched after it, so the list of requests does see it.
        assert person.fetched(f"/bytes/jobs/{job}/")
        assert person.text("train-passes") == f"{PASSES} of {PASSES}"
    shares = stack.shell(
        "from collections import Counter\nfrom jobs.models import Attempt\n"
        "answer = sorted(Counter(str(pk) for pk in Attempt.objects.filter(slot__round__job=job_id)"
        '.values_list("peer_id", flat=True)).values())',
        job_id=job,
    )
    assert shares == [PASSES * len(CHUNKS) // 2] * 2


@pytest.fixture(scope="module")
def downloaded(finished, olga, job, stack, tmp_path_factory):
    olga.open_job(stack, job)
    last = finished["rounds"][-1]
    with olga.page.expect_download() as waiting:
        olga.page.get_by_role("link", name=f"Download round {last}", exact=True).click()
    path = tmp_path_factory.mktemp("download") / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_an_independent_reader_reads_the_downloaded_checkpoint(finished, downloaded):
    assert downloaded.suffix == ".weei-checkpoint"
    done = subprocess.run(["node", str(READER), str(downloaded)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    metadata = found["metadata"]
    assert found["weights"]["sha256"] == metadata["checkpoint"]["sha256"] == finished["sha256"][-1]
    assert metadata["checkpoint"]["round"] == finished["rounds"][-1]
    assert found["weights"]["count"] * 4 == metadata["checkpoint"]["bytes"]
    assert found["weights"]["finite"] and found["state"] is None and found["left"] == 0


def test_the_file_continues_as_a_new_job_that_the_coordinators_own_browser_trains(finished, downloaded, olga, stack):
    """The restored weights are the new job's first checkpoint; with "This browser trains too", Olga needs nobody."""
    page = olga.page
    # Making the first job opened it here; one job at a time is this browser's.
    expect(page.locator("#device-leave")).to_be_visible()
    leave(page)
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.get_by_role("link", name="Continue from a checkpoint").click()
    page.locator("#file-checkpoint").set_input_files(downloaded)
    olga.choose_files()
    page.locator("#mode-new").check()
    fill_settings(page, passes=1, participates=True)
    page.locator("#job-name").fill("Digits, continued")
    again = olga.create()
    olga.start(active=1)
    olga.wait_until_completed(90)
    facts = stack.shell(FACTS, job_id=again)
    first = finished["rounds"][-1]
    assert facts["rounds"] == list(range(first, first + len(CHUNKS) + 1))
    assert facts["sha256"][0] == finished["sha256"][-1]
    assert len(facts["trained"]) == len({chunk for _, chunk in facts["trained"]}) == len(CHUNKS)


def leave(page):
    page.locator("#device-leave").click()
    page.get_by_role("dialog").get_by_role("button", name="Detach this browser").click()
    expect(page.locator("#device-open")).to_be_visible()
