"""The debug log of real browsers: what a training device and the server did, over tabs and reloads."""

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from playwright.sync_api import expect

from tests.browser.people import DIGITS, Coordinator, wait_until

pytestmark = pytest.mark.usefixtures("nobody_complains")
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "debug-log.schema.json").read_text(encoding="utf-8"))
TRAINING = 'const training = (await weeiReady).widgetsApi.get("distributed-training");'
EXPORT = f"async () => {{ {TRAINING} const file = training.exportDebugLog(); return [file.name, await file.text()]; }}"
CLEAR = f"async () => {{ {TRAINING} training.clearDebugLog(); }}"
EVENTS = f"async () => {{ {TRAINING} return training.getDebugLog().map(({{ event }}) => event); }}"
PEER = "() => JSON.parse(localStorage['weei.peer'])"
BROWSER = {"transfer", "training", "indexeddb.save"}
SERVER = {"fedavg": 2, "checkpoint-save": 2, "validation": 3}


@pytest.fixture
def dora(stack, chromium):
    with Coordinator(chromium, "dora") as person:
        yield person.sign_in(stack)


def choose_little(page):
    """One pass over two chunks, trained by this browser, each checkpoint validated."""
    manifest = json.loads((DIGITS / "data/manifest.json").read_text(encoding="utf-8"))[:2]
    text = {"name": "manifest.json", "mimeType": "application/json", "buffer": json.dumps(manifest).encode()}
    page.locator("#file-wasm").set_input_files([DIGITS / "digits.wasm"])
    page.locator("#file-manifest").set_input_files([text])
    page.locator("#file-files").set_input_files([DIGITS / "data" / chunk["fileName"] for chunk in manifest])
    page.locator("#file-validation").set_input_files([DIGITS / "data/validation.bin"])
    page.locator("#id_epochs").fill("1")
    page.locator("#id_coordinatorParticipates").set_checked(True)
    page.locator("#id_validationEnabled").check()
    page.locator("#id_validationEvery").fill("1")
    expect(page.locator("#chosen-files li")).to_have_count(len(manifest) + 3)


def exported(page):
    name, text = page.evaluate(EXPORT)
    assert name.startswith("weei-debug-log-") and name.endswith(".json")
    log = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    return log, text


def test_a_trained_job_leaves_a_log_that_outlives_the_page_and_is_shared_by_tabs(dora):
    page = dora.page
    page.get_by_role("link", name="New job").click()
    choose_little(page)
    job = dora.create()
    dora.start(active=1)
    dora.wait_until_completed(60)

    def complete():
        phases = exported(page)[0]["baseline"]["phases"]
        counts = {name: phases[name]["count"] for name in SERVER if name in phases}
        return counts == SERVER and set(phases) >= BROWSER

    wait_until(complete, "every phase in the log", page=page)
    log, text = exported(page)
    assert set(log["baseline"]["phases"]) == BROWSER | set(SERVER)
    assert log["baseline"]["phases"]["training"]["count"] == 2
    names = [event["event"] for event in log["events"]]
    for name in ("connection.made", "assignment.received", "stage.changed", "assignment.uploaded", "job.completed"):
        assert name in names, name
    assert names.index("assignment.received") < names.index("assignment.uploaded")
    ids = [event["details"]["jobId"] for event in log["events"] if "jobId" in event.get("details", {})]
    assert set(ids) == {job}
    server = [event["details"] for event in log["events"] if event.get("details", {}).get("from") == "server"]
    assert {detail["phase"] for detail in server if "phase" in detail} == set(SERVER)
    assert page.evaluate(PEER)["token"] not in text

    second = dora.context.new_page()
    second.goto(page.url)
    assert exported(second)[0]["events"][: len(log["events"])] == log["events"]
    second.evaluate(CLEAR)
    page.reload()
    expect(page.locator("#panel-overview")).to_be_visible()
    wait_until(lambda: "connection.made" in page.evaluate(EVENTS), "a new connection in the log", page=page)
    after = page.evaluate(EVENTS)
    assert "assignment.received" not in after and "job.completed" not in after, "what was deleted does not come back"
    with page.expect_download() as downloading:
        page.locator("#events summary").click()
        page.get_by_role("link", name="Download the debug log").click()
    download = downloading.value
    assert download.suggested_filename.endswith("-debug-log.json")
    jobs_own = json.loads(Path(download.path()).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(jobs_own)
    assert set(jobs_own["baseline"]["phases"]) == set(SERVER)
