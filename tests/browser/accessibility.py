"""What can be told of a page without a person: names of controls, the order of Tab, and whether text can be read."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

LOOK = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def check_accessible(page: Page) -> None:
    """In the light and in the dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        problems = page.evaluate(LOOK)
        assert problems == [], (scheme, problems)
    page.emulate_media(color_scheme="light")
