"""A participant says odd things of itself: the coordinator's pages show them as text, or as nothing. C78, H6."""

import re

import pytest

from diagnostics.domain.snapshot import SECTIONS, clean_snapshot
from diagnostics.live import snapshot_put
from jobs.views.panels import PANELS
from peers.models import Membership
from tests.api.world import World
from weei_core import strict_json

pytestmark = pytest.mark.django_db
SCRIPT = "<img src=x onerror=alert(1)>"
ODD: list = [
    "",
    SCRIPT,
    "unknown",
    None,
    True,
    -1,
    0,
    1e308,
    2**53,
    [],
    [[]],
    {},
    {"x": {}},
    ["a", 1],
    "\u202e",
    "a" * 300,
]
NAMES = (
    *("browser", "browserVersion", "os", "logicalCores", "requested", "actual", "backend", "fallbackReason"),
    *("activeWorkers", "workerLimit", "webgpu", "adapter", "memoryBudgetMiB", "initializationError", "id", "version"),
    *("wasmSha256", "wgsl", "jobId", "round", "assignmentId", "attemptId", "chunkId", "bytes", "exampleCount"),
    *("batchSize", "localEpochs", "learningRate", "preparationMs", "compilationMs", "trainingMs", "uploadMs"),
    *("processedExamples", "totalExamples", "optimizerSteps", "currentExamplesPerSecond", "lastProgressAt"),
    "averageExamplesPerSecond",
)


@pytest.fixture(scope="module")
def snapshots():
    whole = [{"error": value, "measuredAt": value, **dict.fromkeys(SECTIONS, value)} for value in ODD]
    inside = [{"error": value, **{name: dict.fromkeys(NAMES, value) for name in SECTIONS}} for value in ODD]
    stages = [{**inside[1], "stage": stage} for stage in ("training", "uploading", "error")]
    return [clean_snapshot({"sequence": n, "stage": "waiting", **s}) for n, s in enumerate(whole + inside + stages)]


def test_pages_and_calls_take_any_snapshot(snapshots):
    world = World()
    job, alice = world.job, world.owner
    for snapshot in snapshots:
        if snapshot["assignment"]:
            snapshot["assignment"] |= {"jobId": str(job.pk)}
        snapshot_put(world.participant.peer.pk, snapshot)
        for name in PANELS:
            page = alice.client.get(f"/jobs/{job.pk}/panels/{name}", headers={"hx-request": "true"})
            assert page.status_code == 200, (name, snapshot)
            assert SCRIPT.encode() not in page.content, (name, snapshot)
        strict_json.loads(alice.get(f"/api/v1/jobs/{job.pk}").content)
    assert alice.client.get(f"/jobs/{job.pk}/").status_code == 200


def test_names_and_errors_from_outside_are_text_on_every_page(snapshots):
    """C78: job name, file name, model name, chunk ids, reasons, and what a device calls itself."""
    world = World()
    job, alice = world.job, world.owner
    type(job).objects.filter(pk=job.pk).update(
        name=SCRIPT, module_file_name=SCRIPT, model_name=SCRIPT, last_error=SCRIPT
    )
    job.dataset.chunks.update(file_name=SCRIPT)
    job.dataset.chunks.filter(index=0).update(chunk_id=SCRIPT)
    Membership.objects.filter(job=job).update(load_error=SCRIPT)
    world.participant.post(f"/api/v1/peer/attempts/{world.attempt}/failed", {"reason": SCRIPT})
    snapshot_put(world.participant.peer.pk, snapshots[len(ODD) + 1])
    pages = ["/jobs/", f"/jobs/{job.pk}/", f"/jobs/{job.pk}/checkpoints/", f"/jobs/{job.pk}/delete"]
    pages += [f"/jobs/{job.pk}/panels/{name}" for name in PANELS]
    shown = 0
    for page in pages:
        text = alice.client.get(page).content.decode()
        shown += text.count("&lt;img")
        assert not re.search(r"<img[^>]*onerror", text), page
    assert shown > 5
