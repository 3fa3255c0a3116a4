"""axe-core finds nothing serious on any page, in the light and in the dark, at both widths."""

import pytest
from playwright.sync_api import expect

from tests.browser import card_state, playing
from tests.browser.people import Coordinator, Participant
from tests.browser.test_pages import LONG, WIDTHS
from tests.stack.model_jobs import DigitsJob
from tests.stack.stack import ROOT
from weei_site.help_topics import TOPICS

pytestmark = pytest.mark.usefixtures("nobody_complains")
AXE = (ROOT / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
RUN = """async () => {
  // A colour on its way from one scheme to the other is nobody's choice.
  await Promise.all(document.getAnimations().map((animation) => animation.finished));
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  const grave = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  const places = (nodes) => nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ");
  return grave.map(({ id, help, nodes }) => `${id}: ${help}: ${places(nodes)}`);
}"""
STAFF = """
from django.contrib.auth.models import User
person, _ = User.objects.get_or_create(username=name)
person.is_staff = person.is_superuser = True
person.save()
"""


def check(page, name):
    """Every width and both schemes; what is found names the page."""
    size = page.viewport_size
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = []
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found += [f"{name}, {width}, {scheme}: {line}" for line in page.evaluate(RUN)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(size)
    assert found == []


def visit(person, stack, name, path, ready="h1"):
    person.page.goto(stack.url + path)
    expect(person.page.locator(ready).locator("visible=true").first).to_be_visible()
    check(person.page, name)


@pytest.fixture(scope="module")
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


@pytest.fixture(scope="module")
def finished(stack):
    """CartPole after three rounds: a completed job whose model can be watched, with checkpoints and evaluations."""
    return playing.make_job(stack, "cartpole", "alice")


def test_axe_finds_what_is_wrong(stack, chromium):
    """The check itself: a picture and a field without a name."""
    with Participant(chromium, "visitor") as visitor:
        visitor.page.goto(stack.url + "/help/")
        visitor.page.evaluate("document.querySelector('main').innerHTML += '<img src=\"/static/css/icon.svg\"><input>'")
        with pytest.raises(AssertionError, match="image-alt"):
            check(visitor.page, "help")


def test_pages_for_everybody(stack, chromium):
    with Participant(chromium, "visitor") as visitor:
        visit(visitor, stack, "home", "/")
        visit(visitor, stack, "sign-in", "/sign-in/")
        visit(visitor, stack, "help", "/help/")
        visit(visitor, stack, "help-errors", "/help/errors")
        for topic in TOPICS:
            visit(visitor, stack, f"help-{topic.slug}", f"/help/{topic.slug}/")
        visit(visitor, stack, "participant-without-a-job", "/train/", "#train-none h1")
        visitor.page.locator("#device-settings summary").click()
        check(visitor.page, "device-settings")
        visitor.page.goto(stack.sign_in_link("carol"))
        check(visitor.page, "sign-in-link")
        visit(visitor, stack, "invitation-invalid", f"/join/{'x' * 43}/", "#join-invalid h1")
        visitor.forgive(404, "/api/invitations/open")
        visit(visitor, stack, "not-found", "/jobs/nothing-here/")
        visitor.forgive(404, "/jobs/nothing-here/")


def test_pages_of_a_coordinator(stack, alice, finished):
    base = f"/jobs/{finished}"
    visit(alice, stack, "jobs", "/jobs/")
    visit(alice, stack, "connected-sites", "/account/sites/")
    visit(alice, stack, "job-new", "/jobs/new/")
    alice.page.locator("[data-preset*=digits]").click()
    expect(alice.page.locator("#chosen-files li").first).to_be_visible()
    alice.page.locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    check(alice.page, "job-new-filled")
    visit(alice, stack, "job-continue", "/jobs/continue/")
    visit(alice, stack, "job", f"{base}/")
    alice.page.locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    check(alice.page, "job-opened")
    visit(alice, stack, "checkpoints", f"{base}/checkpoints/")
    visit(alice, stack, "checkpoint", f"{base}/checkpoints/0/")
    visit(alice, stack, "checkpoint-continue", f"{base}/checkpoints/0/continue")
    visit(alice, stack, "play", f"{base}/play/", "#play h2")
    visit(alice, stack, "delete", f"{base}/delete")
    alice.page.goto(f"{stack.url}{base}/")
    alice.page.locator("#settings > summary").click()
    alice.page.locator("#id_epochs").fill("0")
    alice.page.get_by_role("button", name="Save settings").click()
    expect(alice.page.locator("#settings-form .problem:visible").first).to_be_visible()
    check(alice.page, "settings-refused")
    alice.complaints.clear()


def test_pages_of_a_job_at_work(stack, chromium, alice):
    job = DigitsJob(stack, **LONG)
    with Participant(chromium, "bob") as bob:
        bob.open(job.link)
        check(bob.page, "invitation")
        bob.accept()
        job.start(wanted=1)
        bob.wait_for_stage("Training")
        bob.page.locator("#device-settings summary").click()
        check(bob.page, "participant")
        alice.open_job(stack, job.id)
        alice.invite(uses=5)
        expect(alice.page.locator("#panel-diagnostics [data-slot=fresh]").first).to_have_text("Live")
        check(alice.page, "job-running")


def test_the_card_with_participants_of_every_state(stack, chromium, finished):
    with Coordinator(chromium, "alice") as alice:
        alice.sign_in(stack)
        people = card_state.participants(13)
        next(iter(people.values()))["entry"] |= {"stage": "error", "error": "train trapped: unreachable"}
        card_state.fake(alice.page, card_state.state_of(finished, people, points=5))
        alice.open_job(stack, finished)
        expect(alice.page.locator("#live")).to_be_visible()
        alice.page.locator("#panel-diagnostics details").first.evaluate("(details) => { details.open = true; }")
        check(alice.page, "card")


def test_the_index_of_the_admin(stack, chromium):
    """Django's own pages, with what this project shows there."""
    stack.shell(STAFF, name="root")
    with Coordinator(chromium, "root") as root:
        root.sign_in(stack)
        visit(root, stack, "admin", "/admin/")
