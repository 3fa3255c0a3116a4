"""One browser is one participant: newest tab wins, one current job, pause, leave, and nothing is downloaded twice."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import Coordinator, Participant, wait_until
from tests.stack.model_jobs import DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
# So many passes that the job outlives the tests, and some seconds for each part.
LONG = {"epochs": 10_000, "localEpochs": 6000, "batchSize": 16, "learningRate": 0.01}
NO_VALIDATION = {"validationSchedule": {"enabled": False, "unit": "round", "every": 1}}
ATTEMPTS = """
from jobs.models import Attempt
answer = list(Attempt.objects.filter(peer_id=peer_id).order_by("started_at").values_list("state", flat=True))
"""
FORGET = """
from peers.models import Peer
Peer.objects.filter(pk=peer_id).update(token_hash="0" * 64)
"""
MODULE_AND_CHUNKS = """
from jobs.models import Job
job = Job.objects.get(pk=job_id)
answer = [job.module_id, {c.chunk_id: c.artifact_id for c in job.dataset.chunks.all()}]
"""


@pytest.fixture(scope="module")
def job(stack, chromium):
    """A running job, whose first participant has paused, so that every chunk is for whoever comes."""
    made = DigitsJob(stack, **LONG, **NO_VALIDATION)
    with Participant(chromium, "anna") as anna:
        anna.join(made.link)
        made.start(wanted=1)
        anna.wait_for_stage("Training")
        anna.page.locator("#train-pause").click()
        anna.wait_for_stage("Paused")
    return made


@pytest.fixture(scope="module")
def other_job(stack):
    return DigitsJob(stack, **LONG, **NO_VALIDATION)


@pytest.fixture
def bob(chromium):
    with Participant(chromium, "bob") as person:
        yield person


def peer_of(person):
    return person.page.evaluate("JSON.parse(localStorage['weei.peer']).peerId")


def leave(person):
    person.page.locator("#train-leave").click()
    person.agree("Leave the job")
    expect(person.page.locator("#train-none")).to_be_visible()


def test_the_newest_tab_trains_and_the_older_may_take_it_back(bob, job, stack):
    first = bob.join(job.link).page
    expect(first.locator("#train-now")).to_have_text("Training")
    second = bob.context.new_page()
    second.goto(f"{stack.url}/train/")
    expect(second.locator("#train-now")).to_have_text("Training")
    expect(first.locator("#train-replaced")).to_contain_text("Another tab of this browser trains now.")
    expect(first.locator("#train-now")).to_have_text("Watching")
    first.get_by_role("button", name="Train here instead").click()
    expect(first.locator("#train-now")).to_have_text("Training")
    expect(first.locator("#train-replaced")).to_be_hidden()
    expect(second.locator("#train-replaced")).to_be_visible()
    assert stack.shell(ATTEMPTS, peer_id=peer_of(bob)).count("live") == 1
    leave(bob)
    expect(second.locator("#train-none")).to_be_visible()


def test_reloads_and_tabs_are_one_participant_and_a_declined_one_is_none(bob, other_job, stack, chromium):
    """C79."""
    bob.join(other_job.link)
    with Coordinator(chromium, "alice") as alice, Participant(chromium, "dave") as dave:
        head = alice.sign_in(stack).open_job(stack, other_job.id).page.locator("#panel-people .card-head")
        expect(head).to_contain_text(re.compile(r"1 of \d+ can train now"), timeout=60_000)
        for _ in range(3):
            bob.page.reload()
            expect(bob.page.locator("#train-card")).to_be_visible()
        bob.context.new_page().goto(f"{stack.url}/train/")
        dave.open(other_job.link).page.locator("#join-decline").click()
        expect(dave.page.locator("#join-outcome")).to_contain_text("You declined. Nothing was downloaded.")
        assert not dave.fetched("/bytes/")
        alice.page.reload()
        expect(head).to_contain_text(re.compile(r"1 of \d+ can train now"))
        rows = alice.page.locator("#panel-people tbody tr")
        expect(rows.filter(has_text=peer_of(bob)[:8])).to_have_count(1)
        expect(rows.filter(has_text=peer_of(dave)[:8])).to_contain_text("Declined")
    leave(bob)


def test_the_coordinators_own_link_makes_the_same_browser_train(job, stack, chromium):
    """Whatever coordinatorParticipates says: it is off here."""
    with Coordinator(chromium, "alice") as alice:
        alice.sign_in(stack).open_job(stack, job.id)
        alice.page.locator("#device-open").click()
        expect(alice.page.locator("#device-leave")).to_be_visible()
        assert stack.shell(ATTEMPTS, peer_id=peer_of(alice)) == []
        alice.page.goto(job.link)
        alice.page.locator("#join-accept").click()
        alice.page.wait_for_url(re.compile("/train/$"))
        expect(alice.page.locator("#train-now")).to_have_text("Training", timeout=60_000)
        leave(alice)


def test_one_current_job_in_a_browser(bob, job, other_job):
    bob.join(job.link).open(other_job.link)
    bob.page.locator("#join-accept").click()
    expect(bob.page.locator("#join-problem")).to_contain_text("Leave the current job first")
    bob.forgive(409, "/api/v1/invitations/decide")
    bob.page.goto(bob.page.url.split("/join/")[0] + "/train/")
    leave(bob)
    bob.join(other_job.link)
    expect(bob.page.locator("#train-badge")).to_have_text("Job is ready")
    leave(bob)


def test_pausing_ends_the_running_worker_at_once_and_resuming_goes_on(bob, job, stack):
    bob.join(job.link).wait_for_stage("Training")
    bob.page.locator("#train-pause").click()
    bob.wait_for_stage("Paused")
    expect(bob.page.locator("#train-workers")).to_have_text("0")
    assert "live" not in stack.shell(ATTEMPTS, peer_id=peer_of(bob))
    bob.page.locator("#train-pause").click()
    bob.wait_for_stage("Training")
    leave(bob)
    assert "live" not in stack.shell(ATTEMPTS, peer_id=peer_of(bob))


def test_a_browser_that_the_server_forgot_reads_what_to_do(bob, job, stack):
    """Its token is thrown away, and a new one is asked for only when the link is opened again."""
    bob.join(job.link).wait_for_stage("Training")
    peer = peer_of(bob)
    stack.shell(FORGET, peer_id=peer)
    bob.page.reload()
    expect(bob.page.locator("#train-none-error")).to_contain_text("Open the invitation again to take part")
    wait_until(lambda: bob.page.evaluate("localStorage['weei.peer']") == "null", "the token to go", 30, bob.page)
    bob.complaints = [line for line in bob.complaints if not line.startswith("401:")]
    bob.join(job.link).wait_for_stage("Training")
    assert peer_of(bob) != peer
    leave(bob)


@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_a_reload_downloads_neither_module_nor_chunk_again(browser, request, job, stack):
    module, chunks = stack.shell(MODULE_AND_CHUNKS, job_id=job.id)
    with Participant(request.getfixturevalue(browser), browser) as person:
        person.join(job.link).wait_for_stage("Training")
        chunk = chunks[person.page.locator("#train-chunk").text_content()]
        for sha256 in (module, chunk):
            assert len(person.fetched(f"/bytes/jobs/{job.id}/{sha256}")) == 1, person.requests
        person.page.reload()
        person.settle().wait_for_stage("Training")
        assert chunks[person.page.locator("#train-chunk").text_content()] == chunk
        for sha256 in (module, chunk):
            assert len(person.fetched(f"/bytes/jobs/{job.id}/{sha256}")) == 1, person.requests
        leave(person)
