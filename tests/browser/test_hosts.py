"""One assignment on every host: wasmtime, Node with either compiler, Chromium and Firefox.

The same calls with the same addresses and the same request bytes, and the same SHA-256 of the weights.
"""

import functools
import hashlib
import json
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.hosts.plans import INITIAL, PLANS, ROOT, content, play
from tests.hosts.recording import RecordingRun
from weei_core.abi.limits import Limits
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.requests import Units
from weei_core.assignment import Assignment
from weei_core.jail.parent import Jail
from weei_core.model_info import parse_model_info

DIGITS = ROOT / "reference_models" / "digits" / "digits.wasm"
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


def play_on_wasmtime(plan, **options):
    """(calls, SHA-256 of the weights) of the assignment."""
    calls, weights = play(plan, **options)
    return calls, hashlib.sha256(weights).hexdigest()


@pytest.fixture(scope="module", params=PLANS)
def plan(request):
    return PLANS[request.param]


@pytest.fixture(scope="module")
def on_wasmtime(plan):
    return play_on_wasmtime(plan)


def is_progress(call):
    return "read" in call and call.get("text", "").startswith('{"processedExamples":')


def check_equal(calls, sha256, expected):
    expected_calls, expected_sha256 = expected
    # A host may drop reports, by the clock.
    calls, expected_calls = ([call for call in side if not is_progress(call)] for side in (calls, expected_calls))
    assert [call.get("text") for call in calls] == [call.get("text") for call in expected_calls]
    assert calls == expected_calls
    assert sha256 == expected_sha256


def test_wasmtime_gives_the_same_with_and_without_canonical_nans(plan, on_wasmtime):
    check_equal(*play_on_wasmtime(plan, canonicalize_nans=True), on_wasmtime)


@pytest.mark.parametrize("flag", ["--liftoff-only", "--no-liftoff"])
def test_node_gives_the_same_with_either_compiler(flag, plan, tmp_path, on_wasmtime):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    command = ["node", flag, "static/weei/host/node.js", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    check_equal(report["calls"], report["sha256"], on_wasmtime)


@pytest.fixture(params=["chromium", "firefox"])
def page(request, files):
    page = request.getfixturevalue(request.param).new_page()
    page.goto(files)
    yield page
    page.close()


@pytest.fixture
def in_worker(page):
    """Run a task of host_worker.js in a Worker of the browser."""

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

    return run


def test_every_browser_gives_the_same_in_a_worker(in_worker, plan, on_wasmtime):
    answer = in_worker("assignment", plan=plan)
    check_equal(answer["calls"], answer["sha256"], on_wasmtime)


@pytest.fixture(scope="module")
def divided_by_agent(tmp_path_factory):
    """The SHA-256 of the update and its report, as the agent makes them of three ranges of CartPole."""
    plan, folder = PLANS["cartpole"], tmp_path_factory.mktemp("divided")
    start, out = folder / "start", folder / "out"
    start.write_bytes(content(plan, INITIAL))
    work, units = plan["work"], plan["work"]["experience"]
    with Jail(ROOT / plan["module"]) as jail, (folder / "described").open("w+b") as described:
        told = jail.run({"operation": "describe", "seed": "0"}, {}, {"weightsOut": described})
        result = Assignment(
            round=work["round"],
            settings=work["settings"],
            seed=units["seed"],
            info=parse_model_info(str(told["modelInfo"]).encode()),
            start=start,
            auxiliary={},
            units=Units(units["seed"], units["unitStart"], units["unitCount"]),
            split=3,
        ).play(jail, out)
    return hashlib.sha256(out.read_bytes()).hexdigest(), result


def test_every_browser_divides_and_merges_like_the_agent(in_worker, divided_by_agent):
    sha256, expected = divided_by_agent
    answer = in_worker("divided", plan=PLANS["cartpole"], split=3)
    assert answer["sha256"] == sha256
    assert answer["result"]["metrics"] == expected.metrics
    assert answer["result"]["uniqueExamples"] == expected.unique_examples == 32
    assert answer["result"]["examplesProcessed"] == expected.examples_processed
    assert answer["result"]["optimizerSteps"] == expected.optimizer_steps


def test_every_browser_merges_ranges_to_the_golden_bits(in_worker):
    golden = json.loads((ROOT / "tests/golden/ranges.json").read_text())
    assert in_worker("ranges") == [vector["merged"]["sha256"] for vector in golden]


def test_every_browser_predicts_and_inspects_like_wasmtime(in_worker):
    pixels = [index % 17 for index in range(64)]
    engine = make_engine()
    module = compile_module(engine, DIGITS.read_bytes())
    with RecordingRun(module, engine, Limits()) as run:
        run.get_model_info()
        run.load_model(run.weights(run.create_initial_weights("7").weights))
        expected = json.loads(run.predict(json.dumps({"pixels": pixels}, separators=(",", ":"))).text)
    assert in_worker("predict", pixels=pixels) == {"count": 125, "output": expected["output"]}


def test_a_page_asks_a_model_in_a_worker(page):
    """As the pages do: module and weights as Blobs, and the input of CartPole's form."""
    engine = make_engine()
    plan = PLANS["cartpole"]
    weights = content(plan, INITIAL)
    with RecordingRun(compile_module(engine, (ROOT / plan["module"]).read_bytes()), engine, Limits()) as run:
        run.get_model_info()
        run.load_model(weights)
        expected = json.loads(run.predict('{"seed":"3"}').text)
    output = page.evaluate(
        """async ({ module, weights }) => {
            const { Predictor } = await import("/static/weei/api/predictor.js");
            const files = { module: await (await fetch(module)).blob(), weights: new Blob([new Uint8Array(weights)]) };
            const predictor = new Predictor(files);
            const [output] = await Promise.all([predictor.predict({ seed: "3" }), predictor.predict({ seed: "4" })]);
            predictor.close();
            return output;
        }""",
        {"module": f"/{plan['module']}", "weights": list(weights)},
    )
    assert output == expected["output"]
    assert output["return"] > 0


def test_every_browser_makes_the_golden_calls(in_worker):
    golden = json.loads((ROOT / "tests/golden/transcripts.json").read_text())
    assert in_worker("transcripts") == {run["name"]: run["entries"] for run in golden["runs"]}


def test_every_browser_refuses_hostile_modules_by_the_same_codes(in_worker):
    """C55, C57, C60, W3–W8, W11: the table that Node and wasmtime are held to."""
    table = json.loads((ROOT / "tests/hosts/modules/binaries/hostile.json").read_text())
    expected = {m["name"]: m["code"] for m in table if m["code"] not in LIMITS and m["name"] not in JAIL_ONLY}
    assert len(expected) > 30
    assert in_worker("modules", names=list(expected)) == expected
