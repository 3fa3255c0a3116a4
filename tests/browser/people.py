"""People in front of browsers: a profile of one's own, what the browser complains about, and what people do."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

DIGITS = Path(__file__).resolve().parent.parent.parent / "reference_models" / "digits"
CHUNKS = sorted((DIGITS / "data").glob("train-*.bin"))
FILES = {
    "file-wasm": [DIGITS / "digits.wasm"],
    "file-manifest": [DIGITS / "data/manifest.json"],
    "file-files": CHUNKS,
    "file-validation": [DIGITS / "data/validation.bin"],
}
RESULTS = DIGITS.parent.parent / "test-results" / "browser"
# A page that is left cancels what it was fetching; that is no failure.
CANCELLED = ("net::ERR_ABORTED", "NS_BINDING_ABORTED", "Load request cancelled")
POLICY_WATCH = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} by ${event.blockedURI}`));"""

expect.set_options(timeout=30_000)


class Person:
    """One browser profile. `complaints` gathers console errors, exceptions, policy violations and failed requests."""

    everybody: list[Person] = []
    left_behind: list[tuple[str, str]] = []

    def __init__(self, browser, name: str, **options) -> None:
        self.name = name
        self.browser: str = browser.browser_type.name
        self.context: BrowserContext = browser.new_context(locale="en-GB", **options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.context.add_init_script(POLICY_WATCH)
        self.context.on("console", self._console)
        self.context.on("weberror", lambda error: self.complaints.append(f"exception: {error.error}"))
        self.context.on("request", lambda request: self.requests.append(f"{request.method} {request.url}"))
        self.context.on("requestfailed", self._failed)
        self.context.on("response", self._answered)
        self.page: Page = self.context.new_page()
        Person.everybody.append(self)

    def _console(self, message) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text}")

    def _failed(self, request) -> None:
        if not any(word in (request.failure or "") for word in CANCELLED):
            self.complaints.append(f"no answer ({request.failure}): {request.method} {request.url}")

    def _answered(self, response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.request.method} {response.url}")

    def __enter__(self) -> Person:
        return self

    def __exit__(self, kind: type[BaseException] | None, *args: object) -> None:
        if kind is not None:
            Person.left_behind += self.evidence()
        Person.everybody.remove(self)
        self.context.close()

    def evidence(self) -> list[tuple[str, str]]:
        """What the pages show and what the browser complained of, for the report of a failure."""
        found = [(f"what {self.name}'s browser said", "\n".join(self.complaints))]
        for page in self.context.pages:
            with contextlib.suppress(Exception):
                RESULTS.mkdir(parents=True, exist_ok=True)
                path = RESULTS / f"{self.name}-{len(Person.left_behind)}-{time.strftime('%H%M%S')}.png"
                page.screenshot(path=path, full_page=True)
                found.append((f"{self.name}'s page {page.url}, {path.name}", page.inner_text("main")))
        return found

    def fetched(self, path: str) -> list[str]:
        """What was asked of addresses with `path` in them."""
        return [request for request in self.requests if path in request]

    def forgive(self, status: int, path: str) -> None:
        """An answer that the test asked for, and the browser's own line about it, are nothing to complain about."""
        expected = [line for line in self.complaints if line.startswith(f"{status}:") and path in line]
        assert expected, (status, path, self.complaints)
        said = f"responded with a status of {status}"
        self.complaints = [line for line in self.complaints if line not in expected and said not in line]

    def agree(self, verb: str) -> None:
        """Answer the question that the page asks before something is lost."""
        self.page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()

    def text(self, id: str) -> str:
        return self.page.locator(f"#{id}").inner_text()


class Coordinator(Person):
    def sign_in(self, stack) -> Coordinator:
        self.page.goto(stack.sign_in_link(self.name))
        self.page.get_by_role("button", name=f"Sign in as {self.name}").click()
        expect(self.page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
        return self

    def open_job(self, stack, job_id: str) -> Coordinator:
        self.page.goto(f"{stack.url}/jobs/{job_id}/")
        expect(self.page.locator("#panel-overview")).to_be_visible()
        return self

    def choose_files(self, *only: str) -> None:
        for field in only or FILES:
            self.page.locator(f"#{field}").set_input_files(FILES[field])

    def create(self) -> str:
        """Press "Create" and wait for the job's page. Returns the job's id."""
        self.page.locator("#create").click()
        self.page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}/$"), timeout=90_000)
        return self.page.url.rstrip("/").rsplit("/", 1)[-1]

    def invite(self, uses: int) -> str:
        self.page.locator("#id_uses").fill(str(uses))
        self.page.get_by_role("button", name="New invitation link").click()
        link = self.page.locator("#new-link")
        expect(link).to_have_value(re.compile("/join/"))
        return link.input_value()

    def start(self, active: int) -> None:
        """Press Start when so many participants can train."""
        expect(self.page.locator("#panel-people .card-head")).to_contain_text(f"{active} of", timeout=60_000)
        self.page.locator("#do-start").click()
        expect(
            self.page.locator("#do-pause").or_(self.page.get_by_text("Download the last checkpoint"))
        ).to_be_visible()

    def wait_until_completed(self, seconds: float) -> None:
        expect(self.page.get_by_role("link", name="Download the last checkpoint")).to_be_visible(timeout=seconds * 1000)


class Participant(Person):
    def open(self, link: str) -> Participant:
        self.page.goto(link)
        expect(self.page.locator("#join-card")).to_be_visible()
        return self

    def accept(self) -> Participant:
        self.page.locator("#join-accept").click()
        self.page.wait_for_url(re.compile("/train/$"))
        return self.settle()

    def settle(self) -> Participant:
        """Wait for the participant's page to know its job.

        Under WebDriver, which copies every response, about one in thirty of Firefox's Workers stands still at its first
        streamed download; without the driver none of 531 did. Such a page is loaded once more, and pytest says so.
        """
        card = self.page.locator("#train-card")
        try:
            expect(card).to_be_visible(timeout=15_000)
        except AssertionError:
            if self.browser != "firefox":
                raise
            warnings.warn("Firefox's Worker stood still under its driver; the page was loaded again", stacklevel=2)
            self.page.reload()
            expect(card).to_be_visible()
        return self

    def join(self, link: str) -> Participant:
        return self.open(link).accept()

    def wait_for_stage(self, *texts: str) -> None:
        expect(self.page.locator("#train-now")).to_have_text(re.compile("|".join(re.escape(text) for text in texts)))


NOT_HEARD_FROM = "The participant was not heard from any more."


def undisturbed(facts) -> bool:
    """Whether every attempt was received. False, and pytest says so, where a Worker of Firefox stood still under its
    driver (see `Participant.settle`) in the middle of a round; any other end of an attempt fails the test."""
    assert set(facts["reasons"]) <= {NOT_HEARD_FROM}, facts["reasons"]
    if facts["reasons"]:
        warnings.warn(
            "Firefox's Worker stood still under its driver in a round; its work was dealt again", stacklevel=2
        )
    else:
        assert facts["attempts"] == ["received"]
    return not facts["reasons"]


def wait_until(condition, what: str, seconds: float = 30, page: Page | None = None):
    """Poll without keeping the browser's events waiting. Returns the condition's value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        if page:
            page.wait_for_timeout(100)
        else:
            time.sleep(0.1)
    return value
