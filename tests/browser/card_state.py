"""States of weei.js that tests of the diagnostics card make up: as many participants as a test wants."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from uuid import UUID

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests/pages/fake_weei.js"
PEOPLE = json.loads((ROOT / "tests/golden/card.json").read_text(encoding="utf-8"))["people"]
SYSTEMS = (
    ("Chrome", "126", "Windows"),
    ("Firefox", "153", "Linux"),
    ("Safari", "17.5", "macOS"),
    ("Edge", "126", "Android"),
)
STAGES = ("training", "training", "uploading", "preparing", "awaitingAggregation", "receiving")
ME = str(UUID(int=0))


def participants(count: int) -> dict[str, dict]:
    """By peer id: the label, and the snapshot as weei.js gives it out. One in forty differs, one in thirty is stale."""
    made = {}
    for number in range(count):
        browser, version, system = SYSTEMS[number % len(SYSTEMS)]
        snapshot = copy.deepcopy(PEOPLE[0]["snapshot"])
        snapshot["environment"] |= {"browser": browser, "browserVersion": version, "os": system}
        snapshot["stage"] = STAGES[number % len(STAGES)]
        snapshot["assignment"] |= {"chunkId": f"chunk-{number:03d}", "batchSize": 64 if number % 40 == 7 else 16}
        snapshot["performance"] |= {"currentExamplesPerSecond": 100 + 7 * (number % 53), "processedExamples": number}
        age = 42_000 if number % 30 == 11 else 500
        entry = {**snapshot, "ageMs": age, "receivedAt": 0, "connected": True, "stale": age > 10_000}
        made[str(UUID(int=(number + 1) << 96))] = {"label": f"{browser} {version} on {system}", "entry": entry}
    return made


def state_of(job_id: str, people: dict[str, dict], points: int = 0) -> dict:
    """A TrainingState of a coordinator's page, with `points` live values of the first metric for each participant."""
    info = {"metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}], "workSource": None}
    person = {"state": "training", "role": "participant", "connected": True, "approved": True, "trains": True}
    return {
        "ready": True,
        "myPeerId": ME,
        "busy": False,
        "invitations": [],
        "transfers": [],
        "activeWorkers": 0,
        "maxLocalWorkers": 2,
        "gpuMemoryBudgetMiB": 1024,
        "backendPreference": "auto",
        "execution": {"requested": "auto", "actual": "unknown", "phase": "waiting", "fallback": ""},
        "participation": {"stage": "waiting", "job": None, "error": None, "replaced": False, "paused": False},
        "job": {
            "id": job_id,
            "info": info,
            "localWorkers": {"requested": 1, "capacity": 2, "effective": 1, "active": 0},
            "participants": {peer: {**person, "label": of["label"]} for peer, of in people.items()},
        },
        "diagnostics": {peer: of["entry"] for peer, of in people.items()},
        "liveMetrics": {
            peer: [
                {
                    "at": 1_800_000_000_000 + 2000 * at + 9000 * (at > points // 2),
                    "values": {"loss": 2 / (1 + at) + 0.05 * index},
                }
                for at in range(points)
            ]
            for index, peer in enumerate(people)
        },
    }


def fake(page: Page, state: dict) -> None:
    """From the next load on, the page hears this state instead of the server, until `change`."""
    page.route("**/weei/weei.js", lambda route: route.fulfill(path=FAKE, content_type="text/javascript"))
    page.add_init_script(f"window.fakeState = {json.dumps(state)}")


def change(page: Page, state: dict, times: int = 1) -> None:
    page.evaluate("([state, times]) => { for (let n = 0; n < times; n += 1) fakeChange(state) }", [state, times])
