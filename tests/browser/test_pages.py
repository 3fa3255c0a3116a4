"""Every page: on a phone and on a desk, by keyboard, in the dark, with hostile names, and with answers out of order."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import Coordinator, Participant, wait_until
from tests.stack.model_jobs import DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
WIDTHS = {1280: 900, 390: 844}
LONG = {"epochs": 200, "localEpochs": 4000, "batchSize": 16, "learningRate": 0.01}
EVIL = '"><img src=x onerror=window.pwn=1>'
OPEN_PAGES = {"home": "/", "sign-in": "/sign-in/", "help": "/help/", "help-errors": "/help/errors"}
RENAME = """
import json
from jobs.models import Chunk, Job
job = Job.objects.get(pk=job_id)
info = json.loads(job.model_info_text)
info["name"] = info["version"] = evil
for metric in info["metrics"]:
    metric["label"] = evil
Job.objects.filter(pk=job_id).update(
    name=evil, model_name=evil, model_info_text=json.dumps(info), module_file_name=evil
)
for chunk in Chunk.objects.filter(dataset=job.dataset_id):
    Chunk.objects.filter(pk=chunk.pk).update(chunk_id=f"{evil}{chunk.index}", file_name=f"{evil}{chunk.index}")
"""
FAIL = """
from jobs.models import Job
from jobs.services.events import job_event
Job.objects.filter(pk=job_id).update(last_error=evil)
job_event(job_id, evil[:60], reason=evil)
"""


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


@pytest.fixture(scope="module")
def phone(chromium):
    """A participant with a telephone."""
    with Participant(chromium, "phone", viewport={"width": 390, "height": 844}, has_touch=True) as person:
        yield person


@pytest.fixture(scope="module")
def finished(stack, chromium, firefox):
    job = DigitsJob(stack)
    with Participant(chromium, "bob") as bob, Participant(firefox, "carol") as carol:
        bob.join(job.link)
        carol.join(job.link)
        job.start(wanted=2)
        facts = job.wait_until_completed(120)
        stack.wait(lambda: all(job.facts()["validation"]), 60, "the validation of every checkpoint")
        expect(bob.page.locator("#train-done")).to_be_visible()
    assert facts["status"] == "completed"
    return job


@pytest.fixture(scope="module")
def running(stack, phone):
    """A job at work on the telephone."""
    job = DigitsJob(stack, **LONG)
    phone.join(job.link)
    job.start(wanted=1)
    phone.wait_for_stage("Training")
    wait_until(lambda: phone.text("train-round") not in ("—", "1"), "the second round", 60, phone.page)
    phone.wait_for_stage("Training")
    return job


def check_no_sideways(page, name):
    """A phone need not be scrolled sideways; charts take the new width a moment later."""
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    wait_until(lambda: page.evaluate(wider) <= 0, f"{name} to fit {page.viewport_size}", 5, page)


def check_page(page, name):
    """It fits a phone and says nothing that only programs understand. `make screenshots` draws it."""
    size = page.viewport_size
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        check_no_sideways(page, name)
    page.set_viewport_size(size)
    words = page.locator("body").inner_text()
    # The page about errors speaks of NaN because updates may hold some.
    for wrong in ("undefined", "[object", "None", "{{", "{%", *(["NaN"] if name != "help-errors" else [])):
        assert wrong not in words, (name, wrong)


def test_pages_of_coordinators_fit_every_screen(stack, alice, finished):
    page = alice.page
    base = f"/jobs/{finished.id}"
    addresses = {
        "jobs": "/jobs/",
        "job-new": "/jobs/new/",
        "job-continue": "/jobs/continue/",
        "job-finished": f"{base}/",
        "checkpoints": f"{base}/checkpoints/",
        "checkpoint": f"{base}/checkpoints/18/",
        "checkpoint-continue": f"{base}/checkpoints/18/continue",
        "job-delete": f"{base}/delete",
    }
    for name, path in addresses.items():
        page.goto(stack.url + path)
        expect(page.locator("h1")).to_be_visible()
        if name == "job-finished":
            expect(page.locator("#chart canvas")).to_be_visible()
        if name == "job-new":
            page.locator("[data-preset*=digits]").click()
            expect(page.locator("#chosen-files li")).to_have_count(15)
        check_page(page, name)


def test_a_job_at_work_and_its_invitation_fit_every_screen(stack, alice, running):
    alice.open_job(stack, running.id)
    alice.invite(uses=5)
    expect(alice.page.locator("#panel-diagnostics")).to_contain_text("Live", timeout=30_000)
    check_page(alice.page, "job-running")


def test_pages_for_everybody_fit_every_screen(stack, chromium, running, finished):
    with Participant(chromium, "visitor") as visitor:
        page = visitor.page
        for name, path in OPEN_PAGES.items():
            page.goto(stack.url + path)
            check_page(page, name)
        page.goto(stack.sign_in_link("carol"))
        check_page(page, "sign-in-link")
        page.goto(f"{stack.url}/train/")
        expect(page.locator("#train-none")).to_be_visible()
        check_page(page, "participant-without-a-job")
        visitor.open(running.link)
        check_page(page, "invitation")
        page.goto(f"{stack.url}/join/{'x' * 43}/")
        expect(page.locator("#join-invalid")).to_be_visible()
        check_page(page, "invitation-invalid")
        visitor.forgive(404, "/api/v1/invitations/open")
        page.goto(f"{stack.url}/jobs/nothing-here/")
        check_page(page, "not-found")
        visitor.forgive(404, "/jobs/nothing-here/")


def test_a_participant_at_work_fits_every_screen(phone, running):
    phone.wait_for_stage("Training")
    check_page(phone.page, "participant")
    phone.page.locator("details summary").click()
    check_page(phone.page, "participant-device")
    phone.page.locator("details summary").click()


def test_accepting_and_starting_work_by_keyboard_alone(stack, chromium):
    job = DigitsJob(stack, **LONG)
    with Participant(chromium, "bob") as bob, Coordinator(chromium, "alice") as alice:
        alice.page.goto(stack.sign_in_link())
        alice.page.keyboard.press("Enter")
        expect(alice.page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
        bob.open(job.link)
        tab_to(bob.page, "join-accept")
        bob.page.keyboard.press("Enter")
        expect(bob.page.locator("#train-card")).to_be_visible()
        alice.open_job(stack, job.id)
        expect(alice.page.locator("#panel-people .card-head")).to_contain_text("1 of 1", timeout=60_000)
        tab_to(alice.page, "do-start")
        alice.page.keyboard.press("Enter")
        expect(alice.page.locator("#do-pause")).to_be_visible()
        bob.wait_for_stage("Training")
        tab_to(bob.page, "train-pause")
        bob.page.keyboard.press("Enter")
        bob.wait_for_stage("Paused")


def tab_to(page, id):
    """Press Tab until the element has the focus, which must be seen."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement?.id") == id:
            break
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(f"[document.activeElement.id, {outline}]") == [id, "solid"]


def test_hostile_names_are_text_wherever_they_appear(stack, chromium):
    """C78: in pages, fragments, chart, invitation and participant's page; also a browser that lies about itself."""
    job = DigitsJob(stack, **{**LONG, "localEpochs": 1000})
    stack.shell(RENAME, job_id=job.id, evil=EVIL)
    with Participant(chromium, "mallory", user_agent=EVIL) as mallory, Coordinator(chromium, "alice") as alice:
        mallory.open(job.link)
        check_harmless(mallory.page, "#join-title", "[data-fact=model]", "[data-fact=module]", "[data-fact=metrics]")
        mallory.accept()
        alice.sign_in(stack).open_job(stack, job.id).start(active=1)
        check_harmless(mallory.page, "#train-job", "#train-chunk")
        expect(alice.page.locator("#chart-toggles label")).to_have_count(4, timeout=60_000)
        alice.page.locator("#do-finish").click()
        alice.agree("Finish")
        alice.wait_until_completed(120)
        stack.shell(FAIL, job_id=job.id, evil=EVIL)
        alice.page.reload()
        alice.page.locator("#events summary").click()
        expect(alice.page.locator("#chart-toggles label")).to_have_count(4)
        parts = ["h1", "#panel-overview .note", "#chart-toggles", "#panel-checkpoints thead", "#events"]
        check_harmless(alice.page, *parts)
        for path in ("checkpoints/", "checkpoints/1/", "checkpoints/1/continue", "delete"):
            alice.page.goto(f"{stack.url}/jobs/{job.id}/{path}")
            check_harmless(alice.page, "main")
        alice.page.goto(f"{stack.url}/jobs/")
        check_harmless(alice.page, "#job-list")


def check_harmless(page, *places):
    """The text is read there as it is; no element came of it, and no script ran."""
    for place in places:
        expect(page.locator(place).first).to_contain_text(EVIL)
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("typeof window.pwn") == "undefined"


def panel_requests(person, name):
    return person.fetched(f"/panels/{name}")


def hint(page, topic="status", times=1):
    page.evaluate(f"for (let n = 0; n < {times}; n += 1) document.dispatchEvent(new CustomEvent('weei:{topic}'))")


def test_a_late_answer_never_replaces_a_newer_one(stack, alice, running):
    """C77: ten hints while an answer is late are one more request; the late one, read earlier, is dropped."""
    alice.open_job(stack, running.id)
    held = []

    def hold(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    alice.context.route("**/panels/overview", hold)
    hint(alice.page)
    wait_until(lambda: held, "the panel to be asked for", 30, alice.page)
    before = len(panel_requests(alice, "overview"))
    hint(alice.page, times=10)
    with alice.page.expect_response("**/panels/overview") as newer:
        held[0].fulfill(body='<div hidden data-marker="1"></div><p>AN OLD ANSWER</p>', content_type="text/html")
        wait_until(lambda: len(panel_requests(alice, "overview")) > before, "the newer answer", 30, alice.page)
    assert newer.value.ok
    expect(alice.page.locator("#panel-overview .status-line")).to_be_visible()
    expect(alice.page.get_by_text("AN OLD ANSWER")).to_have_count(0)
    alice.context.unroute("**/panels/overview")


def test_a_completed_job_is_not_polled_and_typed_text_survives(stack, alice, finished, running):
    """C77."""
    page = alice.open_job(stack, finished.id).page
    expect(page.locator("[data-panel]").first).to_be_visible()
    assert page.locator("[data-panel] [hx-trigger^=every]").count() == 0
    page = alice.open_job(stack, running.id).page
    assert page.locator("[data-panel] [hx-trigger^=every]").count() > 0
    page.locator("#id_uses").fill("7")
    seen = len(panel_requests(alice, "invitations"))
    hint(page, "invitations")
    wait_until(lambda: len(panel_requests(alice, "invitations")) > seen, "the panel to be asked for", 30, page)
    expect(page.locator("#id_uses")).to_have_value("7")


def test_a_panel_of_an_ended_session_leads_to_the_sign_in_page(stack, chromium, running):
    """C77: the sign-in page is never swapped into a panel."""
    with Coordinator(chromium, "alice") as alice:
        alice.sign_in(stack).open_job(stack, running.id)
        alice.context.clear_cookies()
        hint(alice.page)
        # Each panel's answer leads there; the last one ends the navigation of those before.
        expect(alice.page).to_have_url(re.compile(r"/sign-in/\?next="))
        assert json.dumps(running.id)[1:-1] in alice.page.url
        alice.complaints.clear()
