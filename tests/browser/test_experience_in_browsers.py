"""An experience job, end to end: Chromium coordinates, Chromium and Firefox play with several Workers each."""

import json

import pytest
from playwright.sync_api import expect

from jobs.services.simulating import Simulation
from tests.browser.people import Coordinator, Participant, undisturbed
from tests.stack.model_jobs import FACTS, Agent, preset_of

pytestmark = pytest.mark.usefixtures("nobody_complains")
FOLDER, PRESET = preset_of("cartpole")
ROUNDS, HALF, SEED = 20, 10, "20261129"
SLOTS = """
from jobs.models import Slot
found = Slot.objects.filter(round__job=job_id, round__number=number).order_by("unit_start")
answer = [[s.unit_start, s.record_count, s.seed, s.split] for s in found]
"""


@pytest.fixture(scope="module")
def olga(stack, chromium):
    with Coordinator(chromium, "olga", accept_downloads=True) as person:
        yield person.sign_in(stack)


def choose_package(page):
    page.locator("#file-wasm").set_input_files([FOLDER / PRESET["module"]])
    page.locator("#file-manifest").set_input_files([FOLDER / PRESET["manifest"]])
    expect(page.get_by_label("Episodes per round")).to_be_visible()


def fill_settings(page, workers):
    page.get_by_label("Rounds", exact=True).fill(str(ROUNDS))
    page.get_by_label("Episodes per round").fill("32")
    page.get_by_label("Workers per device").fill(str(workers))
    page.locator("#id_batchSize").fill("16")
    page.locator("#id_coordinatorParticipates").set_checked(False)
    page.locator("#id_validationEnabled").check()
    page.locator("#id_validationEvery").fill("5")


def make_job(olga, workers):
    """The id of a job that Olga made from the package; there is no dataset."""
    page = olga.page
    page.get_by_role("link", name="New job").click()
    choose_package(page)
    expect(page.get_by_label("Dataset passes")).to_have_count(0)
    expect(page.locator("#file-validation")).to_be_hidden()
    fill_settings(page, workers)
    page.get_by_text("More settings").click()
    page.get_by_label("Seed").fill(SEED)
    return olga.create()


@pytest.fixture(scope="module")
def played(stack, olga, workers, chromium, firefox):
    """The job, and what the database says after the last round, while both participants are still there."""
    for before in range(3):
        olga.page.goto(stack.url)
        job = make_job(olga, workers)
        link = olga.invite(uses=5)
        with Participant(chromium, "bob") as bob, Participant(firefox, "carol") as carol:
            for person in (bob, carol):
                person.open(link)
                expect(person.page.locator("#join-card")).to_contain_text("Episodes", ignore_case=True)
                person.accept()
            olga.start(active=2)
            olga.wait_until_completed(180)
            facts = stack.shell(FACTS, job_id=job)
            if before:
                olga.forgive(409, f"/api/v1/jobs/{job}/open")  # the job before is still open in this browser
            if undisturbed(facts):
                yield job, facts
                return
    pytest.fail("Firefox stood still in three jobs: that is more than its driver's fault")


@pytest.fixture(scope="module")
def job(played):
    return played[0]


@pytest.fixture(scope="module")
def finished(played):
    return played[1]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory, workers):
    settings = {
        **PRESET["settings"],
        "epochs": ROUNDS,
        "workers": workers,
        "validationSchedule": {"enabled": True, "unit": "round", "every": 5},
    }
    folder, module = tmp_path_factory.mktemp("simulated"), FOLDER / PRESET["module"]
    with Simulation(module, folder, settings=settings, job_seed=int(SEED), participants=2, device=2) as simulation:
        return list(simulation.run())


def test_browsers_make_the_very_weights_that_a_simulation_makes(stack, job, finished, simulated, workers):
    assert stack.shell(SLOTS, job_id=job, number=1)[1][:2] == [32, 32]
    assert {slot[3] for slot in stack.shell(SLOTS, job_id=job, number=1)} == {workers}
    assert finished["rounds"] == list(range(ROUNDS + 1))
    assert finished["sha256"] == [made.sha256 for made in simulated]


def test_evaluation_comes_every_five_rounds_on_the_same_episodes(stack, job, finished, simulated):
    stack.wait(lambda: stack.shell(FACTS, job_id=job)["validation"][-1], 60, "the last evaluation")
    texts = stack.shell(FACTS, job_id=job)["validation"]
    assert [number for number, text in enumerate(texts) if text] == [0, 5, 10, 15, 20]
    for made, text in zip(simulated, texts, strict=True):
        assert (json.loads(text)["metrics"] if text else None) == made.evaluation
    assert json.loads(texts[-1])["metrics"]["episodeReturn"] > 400


def test_the_job_page_tells_of_episodes(stack, olga, job, finished):
    page = olga.open_job(stack, job).page
    expect(page.locator("#panel-overview .badge").first).to_have_text("Completed")
    expect(page.locator("#panel-overview")).to_contain_text("Rounds")
    expect(page.get_by_role("button", name="Shuffle")).to_have_count(0)
    expect(page.locator("#panel-checkpoints")).to_contain_text("Episode return")


def test_the_policy_is_shown_balancing(stack, olga, job, finished):
    page = olga.open_job(stack, job).page
    page.get_by_role("link", name="Watch").first.click()
    expect(page.locator("#play-status")).to_contain_text("Return", timeout=60_000)


def test_an_exported_checkpoint_goes_on_with_the_assignment_that_would_have_come(
    stack, olga, job, finished, workers, tmp_path
):
    """Continued with `resume` from round 10 the new job deals what the first one dealt in round 11, and ends alike."""
    page = olga.page
    page.goto(f"{stack.url}/jobs/{job}/checkpoints/{HALF}/")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").first.click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    page.goto(f"{stack.url}/jobs/continue/")
    page.locator("#file-checkpoint").set_input_files([file])
    choose_package(page)
    page.locator("#mode-resume").check()
    fill_settings(page, workers)
    made = olga.create()
    olga.forgive(409, f"/api/v1/jobs/{made}/open")  # the first job is still open in this browser
    link = olga.invite(uses=2)
    name = made[:8]
    with Agent(stack, link, f"{name}-a", "--workers", "2"), Agent(stack, link, f"{name}-b", "--workers", "2"):
        olga.start(active=2)
        olga.wait_until_completed(60)
    assert stack.shell(SLOTS, job_id=made, number=HALF + 1) == stack.shell(SLOTS, job_id=job, number=HALF + 1)
    facts = stack.shell(FACTS, job_id=made)
    assert facts["rounds"] == list(range(HALF, ROUNDS + 1))
    assert facts["sha256"] == finished["sha256"][HALF:]
