"""Two real browsers, driven by Playwright: Debian's Chromium, and Firefox over WebDriver BiDi."""

import shutil
import subprocess

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.people import Person
from tests.stack.stack import Stack

CHROMIUM = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
FIREFOX = {"services.settings.server": "data:,#remote-settings-dummy/v1", "dom.webgpu.enabled": True}
FAILED = pytest.StashKey[bool]()
BROWSERS = ("chromium", "firefox")


@pytest.fixture(scope="session")
def lan_address():
    """This machine's first IPv4 address that is no loopback."""
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    found = [address for address in addresses if "." in address and not address.startswith("127.")]
    assert found, f"this machine has no address on a network ({addresses}), so the plain http path cannot be tested"
    return found[0]


@pytest.fixture(scope="session")
def stack(lan_address):
    """One for all tests that need no settings of their own; it listens on every address of this machine."""
    made = Stack(host="0.0.0.0")
    made.environment["PUBLIC_URLS"] += f",http://{lan_address}:{made.port}"
    with made as running:
        yield running


@pytest.fixture(scope="session")
def lan_url(stack, lan_address):
    return f"http://{lan_address}:{stack.port}"


@pytest.fixture(scope="session")
def playwright():
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def chromium(playwright):
    browser = playwright.chromium.launch(
        executable_path=shutil.which("chromium"), chromium_sandbox=False, args=CHROMIUM
    )
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox(playwright):
    # `channel` makes Playwright speak BiDi with a stock Firefox instead of its own protocol with its own build.
    browser = playwright.firefox.launch(
        executable_path=shutil.which("firefox-esr") or shutil.which("firefox"),
        channel="moz-firefox",
        firefox_user_prefs=FIREFOX,
    )
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def workers(chromium, firefox):
    """Workers that every device can run: two, unless a browser finds one core only."""
    cores = []
    for browser in (chromium, firefox):
        page = browser.new_page()
        cores.append(page.evaluate("navigator.hardwareConcurrency"))
        page.close()
    return min(2, *cores)


@pytest.fixture(params=BROWSERS)
def each_browser(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def nobody_complains(request):
    """After the test, no browser has anything to complain about."""
    yield
    # The pictures taken of a failure are against the policy themselves.
    if not request.node.stash.get(FAILED, False):
        assert {person.name: person.complaints for person in Person.everybody if person.complaints} == {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the pages showed, what the browsers complained of, and what the server logged."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        report.sections += Person.left_behind
        for person in Person.everybody:
            report.sections += person.evidence()
            person.complaints.clear()
        if stack := item.funcargs.get("stack"):
            report.sections.append(("the server's log", stack.logs()))
    Person.left_behind.clear()
    return report
