"""Devices on which something fails: people read what and why, and the round goes on without them."""

import hashlib
import json

import pytest
from playwright.sync_api import expect

from tests.browser.people import CHUNKS, FILES, Coordinator, Participant
from tests.stack.model_jobs import DigitsJob

NO_MEMORY = """
const refuse = () => { throw new RangeError("WebAssembly.Memory(): could not allocate memory"); };
WebAssembly.instantiate = async () => refuse();
WebAssembly.Instance = class { constructor() { refuse(); } };
"""
CHUNK = """
from jobs.models import Job
job = Job.objects.get(pk=job_id)
answer = job.dataset.chunks.order_by("index").first().artifact_id
"""


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


def without_memory(route):
    answer = route.fetch()
    route.fulfill(response=answer, body=NO_MEMORY + answer.text())


def without_an_answer(route):
    """The Worker gets an error event that carries no message."""
    route.abort()


@pytest.mark.parametrize(
    ("trouble", "reason"), [(without_memory, "could not allocate memory"), (without_an_answer, "out of memory")]
)
def test_a_device_without_memory_says_so_and_the_others_go_on(trouble, reason, stack, alice, chromium, firefox):
    """C62."""
    job = DigitsJob(stack, epochs=1)
    with Participant(firefox, "phone") as phone, Participant(chromium, "carol") as carol:
        phone.context.route("**/train-worker.js", trouble)
        phone.join(job.link)
        expect(phone.page.locator("#train-error")).to_contain_text(reason)
        carol.join(job.link)
        alice.open_job(stack, job.id)
        peer = phone.page.evaluate("JSON.parse(localStorage['weei.peer']).peerId")
        rows = alice.page.locator("#panel-people tbody tr").filter(has_text=peer[:8])
        expect(rows).to_contain_text(reason)
        expect(rows).to_contain_text("load", ignore_case=True)
        alice.start(active=1)
        alice.wait_until_completed(90)
        assert len(job.facts()["trained"]) == len(CHUNKS)


def test_data_that_changes_on_the_way_is_not_trained_on_and_the_coordinator_may_retry(stack, alice, chromium):
    """C49: fetched once more, reported, three times; then the job waits and names chunk and reason. Retry goes on."""
    job = DigitsJob(stack, epochs=1)
    sha256 = stack.shell(CHUNK, job_id=job.id)
    with Participant(chromium, "bob") as bob:

        def flip(route):
            body = bytearray(route.fetch().body())
            body[100] ^= 1
            route.fulfill(body=bytes(body))

        bob.context.route(f"**/bytes/jobs/*/{sha256}", flip)
        bob.join(job.link)
        alice.open_job(stack, job.id)
        alice.start(active=1)
        held = alice.page.locator("#panel-overview li").filter(has_text="train-001")
        expect(held).to_contain_text("failed 3 times", timeout=60_000)
        expect(held).to_contain_text("SHA-256")
        expect(alice.page.locator("#panel-overview .badge").first).to_have_text("Paused")
        assert len(bob.fetched(sha256)) == 6
        bob.context.unroute(f"**/bytes/jobs/*/{sha256}")
        held.get_by_role("button", name="Retry").click()
        alice.wait_until_completed(90)
        assert len(job.facts()["trained"]) == len(CHUNKS)


def test_every_wrong_file_is_named_when_a_job_is_made(stack, chromium):
    """C49: one byte short, one bit flipped, one swapped with another; all are listed, and no job is left."""
    contents = [path.read_bytes() for path in CHUNKS]
    flipped = bytearray(contents[1])
    flipped[-1] ^= 1
    contents[:3] = [contents[2][:-1], bytes(flipped), contents[0]]
    files = [
        {"name": path.name, "mimeType": "application/octet-stream", "buffer": body}
        for path, body in zip(CHUNKS, contents, strict=True)
    ]
    with Coordinator(chromium, "dora") as dora:
        dora.sign_in(stack).page.goto(f"{stack.url}/jobs/new/")
        dora.choose_files(*(name for name in FILES if name != "file-files"))
        dora.page.locator("#file-files").set_input_files(files)
        dora.page.locator("#create").click()
        problem = dora.page.locator("#problem")
        expect(problem).to_contain_text("The job was not created.", timeout=60_000)
        manifest = json.loads((CHUNKS[0].parent / "manifest.json").read_text())
        expect(problem).to_contain_text(f"must have {len(CHUNKS[0].read_bytes())} bytes, found {len(contents[0])}")
        for index, path in enumerate(CHUNKS[:3]):
            expect(problem).to_contain_text(path.name)
            expect(problem).to_contain_text(manifest[index]["id"])
        for index in (1, 2):
            found = hashlib.sha256(contents[index]).hexdigest()
            expect(problem).to_contain_text(f"must have SHA-256 {manifest[index]['sha256']}, found {found}")
        expect(dora.page.locator("#job-form")).to_be_visible()
        dora.page.goto(f"{stack.url}/jobs/")
        expect(dora.page.locator("#job-list")).to_contain_text("A job could not be created.")
