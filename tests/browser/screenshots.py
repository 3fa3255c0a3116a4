"""`make screenshots`: every page at two widths, in the light and in the dark, as PNG in var/screenshots; those that the
documents show go to docs/images as WebP. Look at them."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.browser.every_page import Place, coordinator_places, public_places, world
from tests.stack.stack import ROOT, Stack

WIDTHS = {1280: 900, 390: 844}
FOLDER = ROOT / "var" / "screenshots"
# Picture of the documents → which of those taken it is.
SHOWN = {
    "job.webp": "job-running-1280-light",
    "job-dark.webp": "job-running-1280-dark",
    "jobs.webp": "jobs-1280-light",
    "invitation.webp": "invitation-1280-light",
    "participant-phone.webp": "participant-390-dark",
}


def take(page: Page, place: Place, url: str, folder: Path) -> None:
    """Loaded once; the width and the scheme change on the page as they would in front of a person."""
    page.goto(url + place.path)
    page.locator(place.ready).locator("visible=true").first.wait_for()
    page.wait_for_timeout(600)
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.wait_for_timeout(150)
            page.screenshot(path=folder / f"{place.name}-{width}-{scheme}.png", full_page=True)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wider > 0:
            print(f"{place.name} is {wider} px wider than {width}")
    page.set_viewport_size({"width": 1280, "height": 900})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots")
    parser.add_argument("--only", action="append", help="names of pages; all without it")
    parser.add_argument("--docs", action="store_true", help="write the pictures of docs/images too")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Stack() as stack, sync_playwright() as playwright, world(stack, epochs=3) as made:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)

        def draw(page: Page, places: list[Place]) -> None:
            for place in places:
                if not options.only or place.name in options.only:
                    take(page, place, stack.url, FOLDER)

        visitor = browser.new_context(locale="en-GB").new_page()
        draw(visitor, public_places(made))
        visitor.goto(stack.url + made.link)
        visitor.locator("#join-accept").click()
        visitor.wait_for_url("**/train/")
        draw(visitor, [Place("participant", "/train/", "#train-card h1")])
        alice = browser.new_context(locale="en-GB").new_page()
        alice.goto(stack.sign_in_link("alice"))
        alice.get_by_role("button", name="Sign in as alice").click()
        draw(alice, coordinator_places(made))
        newcomer = browser.new_context(locale="en-GB").new_page()
        newcomer.goto(stack.sign_in_link("zoe"))
        draw(newcomer, [Place("sign-in-link", newcomer.url.removeprefix(stack.url))])
        newcomer.get_by_role("button", name="Sign in as zoe").click()
        draw(newcomer, [Place("jobs-empty", "/jobs/"), Place("packages-empty", "/packages/")])
        browser.close()
    if options.docs:
        show()
    print(f"The pictures are in {FOLDER.relative_to(ROOT)}.")
    return 0


def show() -> None:
    """The pictures of the documents, small enough for a repository: the upper part of the page as WebP."""
    for name, taken in SHOWN.items():
        with Image.open(FOLDER / f"{taken}.png") as image:
            height = min(image.height, round(image.width * (2.2 if image.width < 500 else 1.25)))
            part = image.crop((0, 0, image.width, height)).convert("RGB")
            part.save(ROOT / "docs/images" / name, "WEBP", quality=82, method=6)


if __name__ == "__main__":
    sys.exit(main())
