"""`weei-agent predict MODULE CHECKPOINT`: a module and a file, no server."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.models import auxiliary
from weei_agent.cli import main
from weei_agent.outcomes import Exit
from weei_agent.predicting import predict_parser
from weei_core.checkpoint_file import write_header
from weei_core.checkpoint_metadata import Artifact, build_metadata
from weei_core.jail.parent import Jail

ROOT = Path(__file__).parents[2]
CARTPOLE = ROOT / "reference_models" / "cartpole" / "cartpole.wasm"
PAGE = (ROOT / "docs" / "agent.md").read_text()


def checkpoint_file(folder: Path, module: Path) -> Path:
    """The module's own initial weights, as a file of round 0."""
    weights = folder / "weights"
    with Jail(module) as jail, weights.open("w+b") as out:
        told = jail.run({"operation": "describe", "seed": "7"}, {}, {"weightsOut": out})
    body = weights.read_bytes()
    sha256 = hashlib.sha256(body).hexdigest()
    metadata = build_metadata(
        job_id="test",
        module=Artifact("0" * 64, module.name, module.stat().st_size, "0" * 64),
        model_info=json.loads(str(told["modelInfo"])),
        settings={},
        round_number=0,
        weights=Artifact(sha256, "round-0.f32", len(body), sha256),
        metrics={},
        examples_processed=0,
        incomplete=False,
    )
    path = folder / "round-0.weei-checkpoint"
    path.write_bytes(write_header(metadata) + body)
    return path


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    return checkpoint_file(tmp_path_factory.mktemp("cartpole"), CARTPOLE)


def ask(capsys, *arguments):
    """(exit code, standard output, standard error)"""
    code = main(["predict", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_checkpoint_is_asked(cartpole, capsys):
    code, out, err = ask(capsys, CARTPOLE, cartpole, "--input", '{"seed":"4"}', "--json")
    assert (code, err) == (Exit.COMPLETED, "")
    assert json.loads(out)["return"] > 0


def test_the_answer_depends_on_nothing_else(cartpole, capsys):
    first, second = (ask(capsys, CARTPOLE, cartpole, "--input", '{"seed":"4"}')[1] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--input", '{"seed":4}'), Exit.MODEL_UNUSABLE, "input.seed is not an unsigned 64-bit integer"),
        (("--text", "x"), Exit.MODEL_UNUSABLE, "seed"),
        ((), Exit.USAGE, "The input must be given"),
        (("--input", "[1]"), Exit.USAGE, "input must be an object"),
        (("--input", "{}", "--auxiliary", "old"), Exit.USAGE, "--auxiliary must be ID=FILE; found old"),
        (("--input", "{}", "--auxiliary", "old=x"), Exit.USAGE, "slots of the model: none; found old"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(cartpole, capsys, arguments, code, sentence):
    found, out, err = ask(capsys, CARTPOLE, cartpole, *arguments)
    assert (found, out) == (code, "")
    assert sentence in err and "Traceback" not in err


@pytest.mark.parametrize("broken", [b"", b"\x10\0\0\0{}", b"x" * 100])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, capsys, broken):
    path = tmp_path / "file"
    path.write_bytes(broken)
    code, out, err = ask(capsys, CARTPOLE, path, "--input", "{}")
    assert (code, out) == (Exit.USAGE, "") and err


def test_a_changed_weight_is_noticed(cartpole, tmp_path, capsys):
    changed = bytearray(cartpole.read_bytes())
    changed[-1] ^= 1
    path = tmp_path / "changed"
    path.write_bytes(changed)
    code, _, err = ask(capsys, CARTPOLE, path, "--input", '{"seed":"4"}')
    assert code == Exit.USAGE and "SHA-256" in err


def test_files_that_are_not_there_are_named(cartpole, capsys, tmp_path):
    assert "nowhere cannot be read" in ask(capsys, tmp_path / "nowhere", cartpole, "--input", "{}")[2]
    assert "nowhere cannot be read" in ask(capsys, CARTPOLE, tmp_path / "nowhere", "--input", "{}")[2]


def test_a_model_that_answers_nothing_says_so(tmp_path, capsys):
    path = checkpoint_file(tmp_path, auxiliary.MODULE)
    code, _, err = ask(capsys, auxiliary.MODULE, path, "--input", "{}")
    assert code == Exit.USAGE and "does not declare inference" in err


def test_every_option_is_documented():
    names = [name for action in predict_parser()._actions for name in action.option_strings if name.startswith("--")]
    assert [name for name in names if f"`{name}" not in PAGE] == []
