"""A press on a button is never lost, however often its panel is fetched again meanwhile."""

import time

from tests.browser.people import Coordinator
from tests.stack.model_jobs import DigitsJob

HINTS = 'for (let i = 0; i < 3; i += 1) document.dispatchEvent(new CustomEvent("weei:status"))'


def test_a_press_is_sent_while_the_panel_is_being_fetched(stack, chromium):
    """Fetches of a panel replace one another in their queue; what a person does must not stand in it."""
    job = DigitsJob(stack)
    with Coordinator(chromium, "alice") as alice:
        alice.sign_in(stack).open_job(stack, job.id)
        page = alice.page

        def slow(route):
            time.sleep(1)
            route.continue_()

        page.route("**/panels/overview", slow)
        pressed = []
        page.on("request", lambda request: pressed.append(request.url) if request.method == "POST" else None)
        page.evaluate(HINTS)
        page.locator("#do-start").click()
        page.evaluate(HINTS)
        page.wait_for_timeout(3000)
        assert [url for url in pressed if url.endswith("/actions/start")]
        page.unroute("**/panels/overview")
