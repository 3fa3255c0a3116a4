"""Two real browsers, driven by Playwright: Debian's Chromium, and Firefox over WebDriver BiDi."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
FIREFOX = {"services.settings.server": "data:,#remote-settings-dummy/v1", "dom.webgpu.enabled": True}
BROWSERS = ("chromium", "firefox")


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


@pytest.fixture(params=BROWSERS)
def each_browser(request):
    return request.getfixturevalue(request.param)
