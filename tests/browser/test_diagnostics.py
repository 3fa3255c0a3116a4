"""What real browsers tell of themselves while they train: the figures that fakes cannot vouch for."""

import pytest

from tests.browser.people import Participant, wait_until
from tests.stack.model_jobs import DigitsJob

pytestmark = pytest.mark.usefixtures("nobody_complains")
# So many passes that the job outlives the test, and some seconds for each part.
LONG = {"epochs": 10_000, "localEpochs": 6000, "batchSize": 16, "learningRate": 0.01}
TOLD = """
from uuid import UUID
from diagnostics.live import job_snapshots
from jobs.models import Job
found = job_snapshots(UUID(job_id), [UUID(peer_id)])
answer = {**found[peer_id], "module": Job.objects.get(pk=job_id).module_id} if found else None
"""
NAMES = {"chromium": "Chromium", "firefox": "Firefox"}


def test_a_browser_tells_what_it_is_and_how_it_trains(stack, each_browser):
    job = DigitsJob(stack, **LONG)
    with Participant(each_browser, "dora") as dora:
        dora.join(job.link)
        job.start(wanted=1)
        peer_id = dora.page.evaluate("JSON.parse(localStorage['weei.peer']).peerId")

        def told(condition):
            def holds():
                answer = stack.shell(TOLD, job_id=job.id, peer_id=peer_id)
                return answer if answer and condition(answer["snapshot"]) else None

            return wait_until(holds, "the snapshot", 60, dora.page)

        answer = told(lambda s: s["performance"]["currentExamplesPerSecond"] and s["gpu"]["initializationError"])
        snapshot = answer["snapshot"]
        assert snapshot["environment"] == {
            "browser": NAMES[dora.browser],
            "browserVersion": each_browser.version.split(".")[0],
            "os": "Linux",
            "logicalCores": dora.page.evaluate("navigator.hardwareConcurrency"),
        }
        execution = snapshot["execution"]
        assert (execution["requested"], execution["actual"], execution["fallbackReason"]) == ("auto", "cpu", None)
        assert (execution["backend"], execution["activeWorkers"]) == ("cpu-wasm", 1)
        # It has WebGPU, and no adapter that its headless self may use.
        assert (snapshot["gpu"]["webgpu"], snapshot["gpu"]["adapter"]) == ("available", "unknown")
        assert "no GPU" in snapshot["gpu"]["initializationError"]
        assert snapshot["model"]["wasmSha256"] == answer["module"]
        assert (snapshot["assignment"]["jobId"], snapshot["assignment"]["batchSize"]) == (job.id, 16)
        assert (snapshot["stage"], snapshot["error"]) == ("training", None)
        assert snapshot["timings"]["preparationMs"] > 0 and snapshot["timings"]["trainingMs"] is None
        assert snapshot["performance"]["averageExamplesPerSecond"] > 0 and snapshot["metrics"]["loss"] > 0

        dora.page.reload()
        again = told(lambda s: s["sequence"] > snapshot["sequence"] and s["stage"] == "training")["snapshot"]
        assert again["assignment"]["attemptId"] != snapshot["assignment"]["attemptId"], "a reload loses the attempt"
