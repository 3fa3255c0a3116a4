"""One assignment on every host: wasmtime, Node with either compiler, Chromium and Firefox.

The same calls with the same addresses and the same request bytes, and the same SHA-256 of the weights.
"""

import base64
import functools
import hashlib
import json
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.hosts.recording import RecordingRun
from weei_core.abi.limits import Limits
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.requests import DataRange, Work

ROOT = Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "reference_models" / "digits"
WORK = {
    "settings": '{"localEpochs":3,"batchSize":16,"learningRate":0.05}',
    "round": 2,
    "seed": "18446744073709551615",
    "format": "digits-u8-v1",
    "recordStart": 5,
    "recordCount": 100,
}
# Refused by the server's jail, which decides once per hash; or by a limit, which in a browser is the watchdog's.
JAIL_ONLY = {"answers_differ", "grows_until_refused", "atomics", "relaxed_simd", "tail_call", "exceptions"}
LIMITS = {"time_limit", "memory_limit"}


class Handler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript", ".wasm": "application/wasm"}

    def do_GET(self):
        if self.path != "/":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>hosts</title>")

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def files():
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(ROOT))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def train_on_wasmtime(**options):
    """(calls, SHA-256 of the weights) of the assignment."""
    engine = make_engine(**options)
    module = compile_module(engine, (DIGITS / "digits.wasm").read_bytes())
    with RecordingRun(module, engine, Limits()) as first:
        first.get_model_info()
        weights = first.weights(first.create_initial_weights("7").weights)
    with RecordingRun(module, engine, Limits()) as run:
        run.get_model_info()
        run.load_model(weights)
        part = DataRange(WORK["format"], WORK["recordStart"], WORK["recordCount"])
        work = Work(WORK["settings"], round=WORK["round"], seed=WORK["seed"], data=part)
        answer = run.train(work, (DIGITS / "data/train-001.bin").read_bytes())
        calls = list(run.entries)
        return calls, hashlib.sha256(run.weights(answer.weights)).hexdigest()


@pytest.fixture(scope="module")
def on_wasmtime():
    return train_on_wasmtime()


def is_progress(call):
    return "read" in call and call.get("text", "").startswith('{"processedExamples":')


def check_equal(calls, sha256, expected):
    expected_calls, expected_sha256 = expected
    # A host may drop reports, by the clock.
    calls, expected_calls = ([call for call in side if not is_progress(call)] for side in (calls, expected_calls))
    assert [call.get("text") for call in calls] == [call.get("text") for call in expected_calls]
    assert calls == expected_calls
    assert sha256 == expected_sha256


def test_wasmtime_gives_the_same_with_and_without_canonical_nans(on_wasmtime):
    check_equal(*train_on_wasmtime(canonicalize_nans=True), on_wasmtime)


@pytest.mark.parametrize("flag", ["--liftoff-only", "--no-liftoff"])
def test_node_gives_the_same_with_either_compiler(flag, tmp_path, on_wasmtime):
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "module": str(DIGITS / "digits.wasm"),
                "weights": {"seed": "7"},
                "data": str(DIGITS / "data/train-001.bin"),
                "work": WORK,
            }
        )
    )
    done = subprocess.run(
        ["node", flag, "static/weei/host/node.js", str(plan)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    check_equal(report["calls"], report["sha256"], on_wasmtime)


@pytest.fixture(params=["chromium", "firefox"])
def in_worker(request, files):
    """Run a task of host_worker.js in a Worker of the browser."""
    page = request.getfixturevalue(request.param).new_page()
    page.goto(files)

    def run(task, **options):
        said = page.evaluate(
            """(message) => new Promise((resolve, reject) => {
                const worker = new Worker("/tests/browser/host_worker.js", { type: "module" });
                worker.onmessage = ({ data }) => resolve(data);
                worker.onerror = (event) => reject(new Error(event.message));
                worker.postMessage(message);
            })""",
            {"task": task, **options},
        )
        assert "error" not in said, said["error"]
        return said["answer"]

    yield run
    page.close()


def test_every_browser_gives_the_same_in_a_worker(in_worker, on_wasmtime):
    answer = in_worker("digits", work=WORK)
    weights = base64.b64decode(answer["weights"])
    check_equal(answer["calls"], hashlib.sha256(weights).hexdigest(), on_wasmtime)


def test_every_browser_predicts_and_inspects_like_wasmtime(in_worker):
    pixels = [index % 17 for index in range(64)]
    engine = make_engine()
    module = compile_module(engine, (DIGITS / "digits.wasm").read_bytes())
    with RecordingRun(module, engine, Limits()) as run:
        run.get_model_info()
        run.load_model(run.weights(run.create_initial_weights("7").weights))
        expected = json.loads(run.predict(json.dumps({"pixels": pixels}, separators=(",", ":"))).text)
    assert in_worker("predict", pixels=pixels) == {"count": 125, "output": expected["output"]}


def test_every_browser_makes_the_golden_calls(in_worker):
    golden = json.loads((ROOT / "tests/golden/transcripts.json").read_text())
    assert in_worker("transcripts") == {run["name"]: run["entries"] for run in golden["runs"]}


def test_every_browser_refuses_hostile_modules_by_the_same_codes(in_worker):
    """C55, C57, C60, W3–W8, W11: the table that Node and wasmtime are held to."""
    table = json.loads((ROOT / "tests/hosts/modules/binaries/hostile.json").read_text())
    expected = {m["name"]: m["code"] for m in table if m["code"] not in LIMITS and m["name"] not in JAIL_ONLY}
    assert len(expected) > 30
    assert in_worker("modules", names=list(expected)) == expected
