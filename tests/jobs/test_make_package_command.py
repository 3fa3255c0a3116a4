"""`manage.py make_package`: options become a request, a preview is printed, files are written or nothing is."""

import json
import zipfile
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from weei_core.model_package import parse_package

TABLE = "a,b,label\n" + "".join(f"{n},{n * 2},{'odd' if n % 2 else 'even'}\n" for n in range(64))
SUMS = "".join(f"{a}+{b}={a + b}<EOS>\n" for a in range(20) for b in range(20))


@pytest.fixture
def run(tmp_path):
    def run(name, content, *options):
        source = tmp_path / name
        source.write_text(content, encoding="utf-8")
        out = StringIO()
        call_command("make_package", "--data", str(source), *map(str, options), stdout=out)
        return out.getvalue()

    return run


def test_a_table_becomes_a_package_in_a_folder(tmp_path, run):
    out = run(
        "rows.csv", TABLE, "--format", "csv", "--label", "label", "--architecture", "mlp", "--hidden", "64,64",
        "--out", tmp_path / "made",
    )  # fmt: skip
    assert "a\tb\tlabel" in out and "Classes: even, odd" in out and "64 records, 6 of them held out" in out
    package = parse_package((tmp_path / "made" / "manifest.json").read_bytes())
    assert package.manifest.total_examples == 58
    assert package.file.execution.weight_bytes == 4 * (2 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2)


def test_text_becomes_a_zip_and_its_cut_is_shown(tmp_path, run):
    out = run(
        "sums.txt", SUMS, "--records", "lines", "--merges", "0", "--end-token", "<EOS>", "--context", "16", "--width",
        "16", "--heads", "2", "--layers", "1", "--hidden", "32", "--zip", tmp_path / "sums.zip",
    )  # fmt: skip
    assert 'line 1: "0" | "+" | "0" | "=" | "0" | "<EOS>"' in out and "Warning" not in out
    with zipfile.ZipFile(tmp_path / "sums.zip") as archive:
        assert {"model.wasm", "manifest.json", "validation.bin", "chunk-00001.bin"} <= set(archive.namelist())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sums.txt", "sums.zip"]


def test_without_a_target_it_only_looks(tmp_path, run):
    out = run("sums.txt", SUMS, "--merges", "100", "--aggregation", "fedavgm", "--records-per-chunk", "9999")
    assert "joins a digit with an operator" in out and "glues the end" in out and "FedAvg is the safe choice" in out
    assert [path.name for path in tmp_path.iterdir()] == ["sums.txt"]


def test_a_request_is_read_and_options_change_it(tmp_path, run):
    request = {
        "name": "Saved", "architecture": {"kind": "mlp", "hidden": [8]}, "data": {"format": "csv", "label": "b"},
        "chunking": {"seed": 4},
    }  # fmt: skip
    (tmp_path / "request.json").write_text(json.dumps(request))
    out = json.loads(
        run(
            "rows.csv",
            TABLE,
            "--request",
            tmp_path / "request.json",
            "--label",
            "label",
            "--json",
            "--out",
            tmp_path / "m",
        )
    )
    assert out["preview"]["parameter_count"] == 2 * 8 + 8 + 8 * 2 + 2 and out["made"]["settings"]["epochs"] == 3
    assert out["preview"]["table"]["classes"] == ["even", "odd"]


@pytest.mark.parametrize("options, reason", [
    (["--label", "colour"], 'has "a", "b", "label"; found "colour"'),
    ([], "data.label is missing"),
    (["--label", "label", "--architecture", "transformer"], 'architecture.kind must be "mlp"'),
    (["--label", "a", "--task", "regression"], 'line 2 must have a number in column "label"; found "even"'),
    (["--label", "label", "--hidden", "x"], "argument --hidden: invalid"),
    (["--label", "label", "--request", "nowhere.json"], "The request must be a file that can be read"),
])  # fmt: skip
def test_what_does_not_fit_is_told_in_a_sentence(tmp_path, run, options, reason):
    with pytest.raises(CommandError, match=reason):
        run("rows.csv", TABLE, *options, "--out", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_zip_that_is_there_is_left_alone(tmp_path, run):
    (tmp_path / "made.zip").write_text("kept")
    with pytest.raises(CommandError, match="must be a new file; made.zip is there already"):
        run("rows.csv", TABLE, "--label", "label", "--zip", tmp_path / "made.zip")
    assert (tmp_path / "made.zip").read_text() == "kept"
