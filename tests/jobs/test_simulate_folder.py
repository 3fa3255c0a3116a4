"""`manage.py simulate FOLDER`: packages and presets on disk, every file checked against what names it."""

import io
import json
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from weei_agent.cli import main
from weei_core.checkpoint_file import read_header, verify
from weei_core.generator.package import make_package
from weei_core.generator.request import PackageRequest
from weei_core.model_info import parse_model_info
from weei_core.training_settings import parse_settings

REFERENCE = Path(__file__).resolve().parents[2] / "reference_models"
REQUEST = {
    "name": "Letters",
    "architecture": {"kind": "transformer", "context": 8, "layers": 1, "heads": 2, "width": 8, "hidden": 16},
    "data": {"format": "text", "records": "lines"},
    "tokenizer": {"kind": "characters", "endToken": "<EOS>"},
    "chunking": {"recordsPerChunk": 10, "seed": 1, "validationShare": 0.2},
}


def simulate(source, *options, **named):
    out = io.StringIO()
    call_command("simulate", str(source), *options, stdout=out, **named)
    return out.getvalue().splitlines()


def events(source, *options):
    return [json.loads(line) for line in simulate(source, *options, "--json")]


@pytest.fixture
def digits(tmp_path):
    """A copy of the shipped model that a test may damage."""
    folder = tmp_path / "digits"
    shutil.copytree(REFERENCE / "digits", folder, ignore=shutil.ignore_patterns("*.c", "*.h", "*.py"))
    return folder


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("letters")
    folder.joinpath("text.txt").write_text("".join(f"{a}{b}{a}\n" for a in "abcdefg" for b in "hijklmn"))
    make_package(PackageRequest.parse(REQUEST), folder / "text.txt", folder / "package")
    return folder / "package"


def test_a_person_reads_a_line_for_each_round(digits):
    lines = simulate(digits, "--participants", "4", "--passes", "1", "--seed", "3")
    assert lines[0] == "Handwritten digits: 4 participants, job seed 3"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "Initial weights; evaluated",
        "Round 1 (pass 1)",
        "Round 2 (pass 1)",
        "Round 3 (pass 1)",
    ]


def test_a_made_package_is_simulated_and_its_checkpoint_is_a_whole_file(letters, tmp_path):
    lines = events(letters, "--participants", "2", "--passes", "2", "--seed", "3", "--out", str(tmp_path / "out"))
    assert [line["event"] for line in lines] == ["started", *["checkpoint"] * 5, "finished"]
    path = Path(lines[-1]["files"][0])
    assert path.name == "round-4.weei-checkpoint"
    with path.open("rb") as file:
        header = read_header(
            file,
            path.stat().st_size,
            check_model_info=parse_model_info,
            check_settings=lambda value: parse_settings(value, for_experience=False),
        )
        verify(file, header)
    assert header.weights_sha256 == lines[-2]["sha256"]
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_simulated_text_model_is_asked_by_the_agent(letters, tmp_path, capsys):
    """Every word is a letter, another, and the first again."""
    settings = ("--set", "learningRate=0.03", "--set", "localEpochs=10")
    file = events(letters, "--passes", "3", "--seed", "3", *settings, "--out", str(tmp_path))[-1]["files"][0]
    assert main(["predict", str(letters / "model.wasm"), file, "--text", "ch"]) == 0
    assert capsys.readouterr().out == "c\n"
    asked = {"maxTokens": 2, "temperature": 0, "stop": False}
    assert (
        main(["predict", str(letters / "model.wasm"), file, "--text", "ch", "--input", json.dumps(asked), "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["stopped"] == "length"


def test_the_number_of_processes_changes_nothing(letters):
    one, two = (events(letters, "--seed", "3", "--passes", "1", "--processes", count) for count in "12")
    assert [line.get("sha256") for line in one] == [line.get("sha256") for line in two]


def test_a_setting_may_be_nested_or_taken_away(digits):
    lines = events(
        digits,
        *("--rounds", "1", "--set", "aggregation.method=fedavgm", "--set", "aggregation.momentum=0.5"),
        *("--set", "validationSchedule=null"),
    )
    assert lines[0]["settings"]["aggregation"] == {"method": "fedavgm", "serverLearningRate": 1, "momentum": 0.5}
    assert all(line["evaluation"] is None for line in lines[1:-1])


def test_a_random_seed_is_told(digits):
    first, second = (events(digits, "--rounds", "1")[0]["seed"] for _ in range(2))
    assert first != second


def flip(path):
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "data" / "train-002.bin").unlink(), '"train-002.bin".*is missing'),
        (lambda folder: flip(folder / "data" / "train-002.bin"), '"train-002.bin".*must have SHA-256'),
        (lambda folder: (folder / "digits.wasm").unlink(), "digits.wasm cannot be read"),
        (lambda folder: (folder / "digits.wasm").write_bytes(b"no module"), "module"),
        (lambda folder: (folder / "data" / "validation.bin").unlink(), "validation.bin cannot be read"),
        (lambda folder: (folder / "data" / "manifest.json").write_text("{"), "manifest"),
        (lambda folder: (folder / "preset.json").write_text("[]"), "preset.json must be an object"),
        (lambda folder: (folder / "preset.json").unlink(), "manifest.json cannot be read"),
    ],
)
def test_what_is_wrong_with_a_folder_is_a_sentence(digits, damage, sentence):
    damage(digits)
    with pytest.raises(CommandError, match=sentence):
        simulate(digits, "--rounds", "1")


@pytest.mark.parametrize("name", ["model.wasm", "manifest.json"])
def test_a_package_with_a_changed_file_is_refused(letters, tmp_path, name):
    shutil.copytree(letters, tmp_path / "package")
    flip(tmp_path / "package" / name)
    with pytest.raises(CommandError):
        simulate(tmp_path / "package", "--rounds", "1")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--participants", "0"), "must be a whole number from 1; found '0'"),
        (("--seed", "-1"), "decimal digits"),
        (("--set", "epochs"), "must be NAME=VALUE; found 'epochs'"),
        (("--passes", "1", "--rounds", "1"), "not allowed with"),
        (("--set", "learningRate=fast"), "settings.learningRate must be"),
        (("--set", "speed=1"), "settings.*speed"),
    ],
)
def test_what_is_wrong_with_an_option_is_a_sentence(digits, options, sentence):
    with pytest.raises(CommandError, match=sentence):
        simulate(digits, *options)
