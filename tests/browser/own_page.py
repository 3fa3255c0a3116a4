"""A page of somebody's own on our origin: nothing of ours but the script, and the founding text's examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.people import Person

EXAMPLES = Path(__file__).with_name("seed_examples.js")
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A page of my own</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<script type="module" src="/static/weei/weei.js"></script>
<script type="module">
  window.examples = await import("/mine/seed_examples.js");
  window.training = await window.examples.gettingTheApi();
</script>
<style>{style}</style>
<main><h1>My page</h1><button id="mine">Mine</button><input type="file" id="wasmInput">
<input type="file" id="manifestInput"><input type="file" id="datasetInput" multiple></main></html>
"""


class OwnPage:
    """`call(expression)` is evaluated in the page, where `examples` and `training` are there."""

    def __init__(self, person: Person, stack: Any, *, style: str = "", page: Page | None = None) -> None:
        self.page = page or person.page
        self.url = f"{stack.url}/mine/"
        body = PAGE.replace("{style}", style)
        person.context.route(self.url, lambda route: route.fulfill(body=body, content_type="text/html"))
        script = EXAMPLES.read_text(encoding="utf-8")
        person.context.route(
            f"{self.url}seed_examples.js", lambda route: route.fulfill(body=script, content_type="text/javascript")
        )
        self.open()

    def open(self) -> OwnPage:
        """Also what a reload does."""
        self.page.goto(self.url)
        self.page.wait_for_function("window.training !== undefined")
        return self

    def call(self, expression: str, argument: Any = None) -> Any:
        return self.page.evaluate(expression, argument)

    def wait(self, condition: str, seconds: float = 30, argument: Any = None) -> Any:
        """Until the expression is true of the state, `s`; its value."""
        code = f"(argument) => {{ const s = training.getState(); return {condition}; }}"
        handle = self.page.wait_for_function(code, arg=argument, timeout=seconds * 1000)
        return handle.json_value()
