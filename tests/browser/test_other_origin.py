"""Pages of other sites: registered ones run the founding text's examples unchanged, others are refused in words."""

import pytest
from playwright.sync_api import expect

from tests.browser.other_site import OtherSite
from tests.browser.people import CHUNKS, DIGITS, Coordinator, Participant, Person
from tests.stack.model_jobs import DigitsJob

FILES = {
    "wasmInput": [DIGITS / "digits.wasm"],
    "manifestInput": [DIGITS / "data/manifest.json"],
    "datasetInput": CHUNKS,
}
ROUNDS = 36
WATCH = "() => { window.tables = []; console.table = (rows) => window.tables.push(...rows); }"
GET = "weei.widgetsApi.get('distributed-training')"


@pytest.fixture(scope="module")
def school(stack):
    """Another host name than ours: to browsers a third party, whose storage they keep apart."""
    with OtherSite(stack.url, "localhost") as site:
        yield site.register(stack)


@pytest.fixture
def stranger(stack):
    """A site that nobody registered. It has our host name, so that browsers would send it our cookies."""
    with OtherSite(stack.url) as site:
        yield site


def sign_in(person: Person, stack) -> None:
    """A click on the site, then our popup: the account's one-time link stands for a password there."""
    with person.page.expect_popup() as opened:
        person.page.get_by_role("button", name="Sign in with Weei").click()
    popup = opened.value
    expect(popup.get_by_role("heading", name="Connect School?")).to_be_visible()
    popup.get_by_role("button", name="Allow", exact=True).click()
    expect(person.page.locator("#said")).to_have_text(f"signed in as {person.name}")


def wait(person: Person, condition: str, seconds: float = 60):
    code = f"() => {{ const s = {GET}.getState(); return {condition}; }}"
    return person.page.wait_for_function(code, timeout=seconds * 1000).json_value()


@pytest.mark.usefixtures("nobody_complains")
def test_the_examples_run_on_a_registered_site(stack, school, each_browser):
    """From signing in to the last checkpoint, uploads, downloads, both Workers and the socket across origins."""
    with Coordinator(each_browser, f"dora-{each_browser.browser_type.name}") as dora:
        dora.sign_in(stack)
        school.open(dora.page)
        assert dora.page.evaluate("weei.user") is None
        sign_in(dora, stack)
        for field, files in FILES.items():
            dora.page.locator(f"#{field}").set_input_files(files)
        dora.page.evaluate(WATCH)
        dora.page.evaluate("async () => void (await examples.compareParticipants())")
        dora.page.evaluate("async () => void (await examples.runAJob({ wasmInput, manifestInput, datasetInput }))")
        wait(dora, f"s.job.status === 'completed' && s.job.checkpoints.length === {ROUNDS + 1}", 180)
        state = dora.page.evaluate(f"{GET}.getState()")
        assert state["job"]["role"] == "coordinator" and not state["job"]["incomplete"]
        rows = dora.page.evaluate("window.tables")
        assert any(row["mode"] == "cpu" and row["peer"] == state["myPeerId"] for row in rows)
        exported = dora.page.evaluate(
            "async () => { const { metadata, weights } = await examples.readCheckpoint("
            f"await {GET}.exportCheckpoint()); return [metadata.round, weights.every(Number.isFinite)]; }}"
        )
        assert exported == [ROUNDS, True]
        school.open(dora.page)
        assert dora.page.evaluate("weei.user") == dora.name, "a page that is loaded again is still signed in"
        dora.page.evaluate("weei.signOut()")
        refused = dora.page.evaluate(f"{GET}.listSavedJobs().then(() => null, (error) => error.message)")
        assert "Sign in" in refused
        dora.forgive(401, "/api/v1/jobs")


@pytest.mark.usefixtures("nobody_complains")
def test_a_guest_takes_part_from_a_registered_site(stack, school, chromium):
    job = DigitsJob(stack, epochs=1)
    with Participant(chromium, "guest") as guest:
        school.open(guest.page)
        token = job.link.rstrip("/").rsplit("/", 1)[-1]
        guest.page.evaluate(f"(token) => {GET}.openInvitation(token)", token)
        jobs = wait(guest, "s.invitations.map(([id]) => id)")
        guest.page.evaluate(f"(id) => {GET}.decideInvitation(id, true)", jobs[0])
        job.start(wanted=1)
        facts = job.wait_until_completed(90)
        assert facts["attempts"] == ["received"]


def test_a_site_that_is_not_registered_is_refused_in_words(stack, stranger, each_browser):
    with Coordinator(each_browser, "erin") as erin:
        erin.sign_in(stack)
        stranger.open(erin.page)
        assert erin.page.evaluate(f"{GET} === undefined")
        said = erin.page.evaluate("weei.reason")
        assert said.startswith(f"The origin {stranger.origin} is not registered at {stack.url}. An administrator")
        example = "examples.gettingTheApi().then(() => null, (error) => error.message)"
        assert erin.page.evaluate(example) == "Distributed training is not enabled for this site."
        assert (
            erin.page.evaluate("weei.widgetsApi.enable('distributed-training').catch((error) => error.message)") == said
        )
        reads = "(url) => fetch(url, { credentials: 'include' }).then((answer) => answer.text(), () => 'unread')"
        assert erin.page.evaluate(reads, f"{stack.url}/api/v1/jobs") == "unread"
        opens = """(url) => new Promise((resolve) => {
          const socket = new WebSocket(url);
          socket.onopen = () => resolve("open");
          socket.onclose = ({ code }) => resolve(code);
        })"""
        assert erin.page.evaluate(opens, stack.url.replace("http", "ws") + "/ws/peer") == 1006


def test_our_cookie_does_not_count_on_a_registered_site(stack, chromium):
    """The browser takes another port for the same site and would send it."""
    with OtherSite(stack.url) as neighbour, Coordinator(chromium, "fred") as fred:
        neighbour.register(stack)
        fred.sign_in(stack)
        neighbour.open(fred.page)
        reads = "(url) => fetch(url, { credentials: 'include' }).then((answer) => answer.text(), () => 'unread')"
        assert fred.page.evaluate(reads, f"{stack.url}/api/v1/site") == "unread"
        status = "(url) => fetch(url).then(({ status }) => status)"
        assert fred.page.evaluate(status, f"{stack.url}/api/v1/jobs") == 401
        blindly = "{ method: 'POST', mode: 'no-cors', credentials: 'include', body: 'x=1' }"
        assert fred.page.evaluate(f"(url) => fetch(url, {blindly}).then(() => 0)", f"{stack.url}/sign-out/") == 0
        fred.page.goto(f"{stack.url}/jobs/")
        expect(fred.page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()


def test_a_site_for_chosen_users_asks_guests_to_sign_in(stack, chromium):
    with OtherSite(stack.url, "localhost") as club, Coordinator(chromium, "gina") as gina:
        club.register(stack, audience="chosen")
        gina.sign_in(stack)
        club.open(gina.page)
        assert (
            gina.page.evaluate("weei.reason")
            == f"Distributed training is for chosen users on {club.origin}. Sign in first."
        )
        with gina.page.expect_popup() as opened:
            gina.page.get_by_role("button", name="Sign in with Weei").click()
        expect(opened.value.get_by_text(f"not enabled for gina on {club.origin}")).to_be_visible()
        expect(gina.page.locator("#said")).to_contain_text("The sign-in window was closed")
        stack.shell(
            "from django.contrib.auth.models import User\nfrom peers.models import SiteOrigin, SiteUser\n"
            'gina = User.objects.get(username="gina")\n'
            "SiteUser.objects.create(site=SiteOrigin.objects.get(origin=origin), user=gina)\nanswer = None",
            origin=club.origin,
        )
        opened.value.close()
        sign_in(gina, stack)
        assert gina.page.evaluate(f"{GET}.listSavedJobs()") == []
        assert gina.page.evaluate("weei.reason") is None


def test_somebody_who_does_not_allow_it_is_believed(stack, school, chromium):
    with Coordinator(chromium, "hugo") as hugo:
        hugo.sign_in(stack)
        school.open(hugo.page)
        with hugo.page.expect_popup() as opened:
            hugo.page.get_by_role("button", name="Sign in with Weei").click()
        opened.value.get_by_role("button", name="Do not allow").click()
        expect(hugo.page.locator("#said")).to_have_text("This site was not allowed to act for you.")


# --- the page's own policies ---

NEEDED = "script-src {weei} 'self' 'wasm-unsafe-eval'; worker-src blob: {weei}; connect-src {weei} {socket}"


def policy(stack, **without: str) -> str:
    """What docs/embedding.md asks for and nothing else, with parts left out."""
    parts = {name: value for part in NEEDED.split("; ") for name, _, value in [part.partition(" ")]}
    parts |= {name.replace("_", "-"): value for name, value in without.items()}
    text = "; ".join(f"{name} {value}" for name, value in parts.items())
    return "default-src 'none'; img-src data:; " + text.format(weei=stack.url, socket=stack.url.replace("http", "ws"))


def test_the_policy_that_the_docs_ask_for_is_enough(stack, school, each_browser):
    school.headers = {"Content-Security-Policy": policy(stack)}
    try:
        with Person(each_browser, "ivy") as ivy:
            school.open(ivy.page)
            assert ivy.page.evaluate("weei.reason") is None
            assert ivy.page.evaluate(f"{GET}.openInvitation('x').catch(({{ code }}) => code)") == "invitation_invalid"
            ivy.forgive(404, "/api/v1/invitations/open")
            assert ivy.complaints == []
    finally:
        school.headers = {}


@pytest.mark.parametrize(
    "without, forbidden",
    [
        ({"connect_src": "'self'"}, "connect-src"),
        ({"worker_src": "'none'"}, "worker-src blob"),
        ({"worker_src": "blob:"}, "background part of this page failed"),
        ({"script_src": "{weei} 'self'"}, "wasm-eval"),
    ],
)
def test_a_policy_that_forbids_something_is_named(stack, school, each_browser, without, forbidden):
    school.headers = {"Content-Security-Policy": policy(stack, **without)}
    try:
        with Person(each_browser, "jack") as jack:
            school.open(jack.page)
            reason = jack.page.evaluate("weei.reason")
            assert forbidden in reason and "Content-Security-Policy" in reason, reason
            assert f"must allow: script-src {stack.url}" in reason and f"connect-src {stack.url}" in reason
    finally:
        school.headers = {}


@pytest.mark.usefixtures("nobody_complains")
def test_an_isolated_page_works_too(stack, school, each_browser):
    """Cross-origin isolation asks every foreign file to agree; the popup needs `same-origin-allow-popups`."""
    school.headers = {
        "Cross-Origin-Embedder-Policy": "require-corp",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    try:
        with Person(each_browser, "kate") as kate:
            school.open(kate.page)
            assert kate.page.evaluate("[crossOriginIsolated, weei.reason]") == [True, None]
            kate.page.evaluate(f"{GET}.openInvitation('x').catch(() => {{}})")
            kate.forgive(404, "/api/v1/invitations/open")
    finally:
        school.headers = {}
