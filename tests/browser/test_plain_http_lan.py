"""A phone that scanned the code: plain http from another address of this machine, where much is missing."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import Participant, undisturbed
from tests.stack.model_jobs import DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def test_training_works_where_the_context_is_not_secure(stack, lan_url, each_browser):
    """C66: no crypto.subtle, no Cache, no storage folder and no wake lock; hashes are checked all the same."""
    job = DigitsJob(stack, epochs=1)
    with Participant(each_browser, "phone", **PHONE) as phone:
        phone.open(job.link.replace(stack.url, lan_url))
        missing = "[isSecureContext, crypto.subtle, self.caches, navigator.storage?.getDirectory, navigator.wakeLock]"
        assert phone.page.evaluate(f"{missing}.map((one) => typeof one)") == ["boolean", *["undefined"] * 4]
        assert not phone.page.evaluate("isSecureContext")
        phone.accept()
        job.start(wanted=1)
        facts = job.wait_until_completed(90)
        expect(phone.page.locator("#train-done")).to_be_visible()
        assert len(facts["trained"]) == len({chunk for _, chunk in facts["trained"]}) == 12
        undisturbed(facts)
