"""The second run: everything that happens to pages happens, and the job completes with every chunk once per pass."""

import collections
import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import Coordinator, Participant, wait_until
from tests.browser.raw import RawChromium
from tests.stack.model_jobs import DigitsJob
from tests.stack.stack import Stack

PASSES = 3
LEASE_SECONDS = 10
# Some seconds of training for each chunk, so that there is time to disturb it.
SLOW = {"localEpochs": 3000, "batchSize": 16, "learningRate": 0.01}
AT_WORK = ("Training",)
ALIVE = (
    "Training", "Waiting for work", "Downloading what this round needs", "Loading the model", "Sending the new weights",
    "Done; waiting for the others",
)  # fmt: skip
ATTEMPTS = """
from jobs.models import Attempt, Slot
of = Attempt.objects.filter(slot__round__job=job_id)
slots = Slot.objects.filter(round__job=job_id, status="received").select_related("round", "chunk")
answer = {
    "states": [[str(peer), state] for peer, state in of.order_by("started_at").values_list("peer_id", "state")],
    "counted": list(of.filter(state="received").values_list("slot_id", "unique_examples")),
    "slots": [[s.pk, s.round.pass_no, s.chunk.chunk_id, s.record_start, s.record_count] for s in slots],
    "chunks": {c.chunk_id: c.example_count for c in slots[0].chunk.dataset.chunks.all()} if slots else {},
}
"""


@pytest.fixture(scope="module")
def stack():
    """Of its own: here a participant is gone after ten seconds of silence, not thirty."""
    with Stack({"LEASE_SECONDS": str(LEASE_SECONDS), "SWEEP_SECONDS": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def job(stack):
    return DigitsJob(stack, epochs=PASSES, validationSchedule={"enabled": False, "unit": "round", "every": 1}, **SLOW)


@pytest.fixture(scope="module")
def alice(stack, job, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack).open_job(stack, job.id)


@pytest.fixture(scope="module")
def erin(job):
    """In a real Chromium whose tab is hidden from the beginning: another one lies in front of it."""
    with RawChromium() as browser:
        page = browser.open(job.link)
        wait_until(lambda: page.text("join-title"), "Erin's invitation")
        page.click("join-accept")
        wait_until(lambda: page.text("train-now"), "Erin's page")
        browser.open("about:blank")
        assert page.hidden
        yield page


def test_a_job_survives_everything_that_happens_to_pages(stack, job, alice, erin, chromium, firefox):
    """C25, C27, C30, C64, C75."""
    with (
        Participant(chromium, "bob") as bob,
        Participant(firefox, "carol") as carol,
        Participant(chromium, "dave") as dave,
    ):
        for person in (bob, carol, dave):
            person.join(job.link)
        alice.start(active=4)
        reload_mid_round(carol)
        cut_the_network_during_an_upload(bob)
        three_go_away_at_work(stack, job, alice, dave, erin, bob)
        kill_the_web_server(stack, bob)
        alice.wait_until_completed(150)
        for person in (bob, carol):
            expect(person.page.locator("#train-done")).to_be_visible()
        wait_until(lambda: erin.text("train-done"), "Erin to be thanked")
        assert erin.hidden
    check(stack, job)


def reload_mid_round(person):
    """The reloaded page says what it does, with the same part of the data: its own assignment as a new attempt."""
    person.wait_for_stage(*AT_WORK)
    work = "#train-chunk"
    before = person.page.locator(work).text_content()
    person.page.reload()
    person.settle().wait_for_stage(*ALIVE)
    expect(person.page.locator(work)).to_have_text(before)
    person.wait_for_stage(*AT_WORK)


def cut_the_network_during_an_upload(person):
    """The first try is cut off; then nothing goes out for a while, and the page says that it is sending."""
    cut = []

    def refuse(route):
        cut.append(route.request.url)
        route.abort("connectionreset")

    person.context.route("**/bytes/uploads*", refuse)
    wait_until(lambda: len(cut) >= 2, "an upload to be tried again", 60, person.page)
    expect(person.page.locator("#train-now")).to_have_text("Sending the new weights")
    person.context.unroute("**/bytes/uploads*")
    person.wait_for_stage("Done; waiting for the others", *AT_WORK)


def three_go_away_at_work(stack, job, alice, closed, frozen, offline):
    """A tab is closed, a hidden page is frozen, a device loses its network: each part is given to somebody else."""
    closed.wait_for_stage(*AT_WORK)
    gone = peer_of(closed.page)
    closed.page.close()
    wait_until(lambda: frozen.text("train-now") == "Training", "the hidden tab to train", 60)
    asleep = peer_of(frozen)
    assert not ended(stack, job, asleep), "a hidden tab kept its lease"
    frozen.freeze()
    offline.wait_for_stage(*AT_WORK)
    offline.context.set_offline(True)
    away = [gone, asleep, peer_of(offline.page)]
    wait_until(lambda: all(ended(stack, job, peer) for peer in away), "the parts to be given back", 90)
    row = alice.page.locator("#panel-people tbody tr").filter(has_text=gone[:8])
    expect(row).to_contain_text(re.compile("disconnected", re.IGNORECASE))
    expect(offline.page.locator("#train-offline")).to_contain_text("The connection is away")
    frozen.thaw()
    offline.context.set_offline(False)
    expect(offline.page.locator("#train-offline")).to_be_hidden()
    offline.wait_for_stage(*AT_WORK)
    wait_until(lambda: frozen.text("train-now") in AT_WORK, "the thawed page to train again", 60)


def peer_of(page):
    return page.evaluate("JSON.parse(localStorage['weei.peer']).peerId")


def ended(stack, job, peer):
    """The attempts of the peer whose lease ran out."""
    return [one for one in stack.shell(ATTEMPTS, job_id=job.id)["states"] if one == [peer, "expired"]]


def kill_the_web_server(stack, person):
    stack.wait_for_restart("web", stack.kill("web"))
    stack.wait_until_up()
    person.wait_for_stage(*AT_WORK)


def check(stack, job):
    """Every example of every chunk once per pass, one checkpoint per round, every update counted once."""
    facts = job.facts()
    assert facts["status"] == "completed" and facts["error"] == ""
    assert facts["rounds"] == list(range(len(facts["rounds"])))
    found = stack.shell(ATTEMPTS, job_id=job.id)
    assert trained(found["slots"]) == {
        (turn, chunk): list(range(examples)) for turn in range(PASSES) for chunk, examples in found["chunks"].items()
    }
    assert sorted(found["counted"]) == sorted([slot, count] for slot, _, _, _, count in found["slots"])
    assert {state for _, state in found["states"]} <= {"received", "expired", "replaced"}
    rebuilt = stack.manage("rebuild", job.id)
    assert "equal" in rebuilt, rebuilt


def trained(slots):
    """The examples of each chunk in each pass. A chunk may be cut in two when there are more hands than chunks left."""
    examples = collections.defaultdict(list)
    for _, turn, chunk, start, count in slots:
        examples[turn, chunk] += range(start, start + count)
    return {key: sorted(found) for key, found in examples.items()}
