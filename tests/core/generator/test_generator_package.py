"""Packages of every format: what a preview shows, what is written, and that modules and the server's parser take it."""

import io
import json
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from wasmtime import Engine, Module

from tests.models.driver import Driver
from weei_core.dataset_manifest import FoundFile, match_files
from weei_core.errors import Conflict, Invalid, TooLarge
from weei_core.generator import records as spools
from weei_core.generator.package import make_package, preview, write_zip
from weei_core.generator.request import PackageRequest
from weei_core.model_info import parse_model_info
from weei_core.model_package import check_package_against_module, check_validation_file, parse_package
from weei_core.training_settings import parse_settings

ROOT = Path(__file__).parents[3]
SUMS = [f"{a}+{b}={a + b}" for a in range(0, 100, 3) for b in range(0, 100, 5)]
SMALL = {"kind": "transformer", "context": 16, "layers": 1, "heads": 2, "width": 8}
NO_MERGES = {"kind": "bpe", "merges": 0, "endToken": "<EOS>"}
MLP = {"kind": "mlp", "hidden": [4]}
MOMENTUM = {"method": "fedavgm"}
ENGINE = Engine()


def csv_text(rows=60, regression=False):
    label = (lambda n: n * 0.5) if regression else (lambda n: ("low", "high", "middle")[n % 3])
    return "size,weight,y\n" + "".join(f"{n},{n * n - 3},{label(n)}\n" for n in range(rows))


def npz_bytes(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def images_bytes():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for index in range(24):
            picture = io.BytesIO()
            Image.new("L", (5, 5), 10 * index).save(picture, "PNG")
            archive.writestr(f"{'light' if index > 11 else 'dark'}/{index}.png", picture.getvalue())
    return content.getvalue()


def answers(*pairs):
    return "\n".join(json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in pairs)


CASES = {
    "windows": (SMALL, {"format": "text"}, {"kind": "bytes"}, "\n".join(SUMS)),
    "lines": (SMALL, {"format": "text", "records": "lines"}, NO_MERGES, "\n".join(SUMS)),
    "merges": (SMALL, {"format": "text"}, {"kind": "bpe", "merges": 30, "base": "bytes"},
               "".join(f"é€😀 word {line} " for line in SUMS)),
    "answers": (SMALL, {"format": "jsonl"}, {"kind": "characters", "endToken": "<EOS>"},
                answers(*((line[: line.index("=") + 1], line[line.index("=") + 1 :]) for line in SUMS))),
    "texts": (SMALL, {"format": "jsonl", "text": "t"}, {"kind": "characters"},
              "\n".join(json.dumps({"t": s * 5}) for s in SUMS)),
    "classes": (MLP, {"format": "csv", "label": "y"}, None, csv_text()),
    "values": (MLP, {"format": "csv", "label": "y", "task": "regression"}, None, csv_text(regression=True)),
    "arrays": (MLP, {"format": "npz"}, None,
               npz_bytes(x=np.arange(240, dtype=np.uint8).reshape(40, 3, 2), y=np.arange(40) % 4)),
    "targets": (MLP, {"format": "npz"}, None,
                npz_bytes(x=np.random.default_rng(1).normal(size=(40, 3)), y=np.ones((40, 2)))),
    "images": (MLP, {"format": "images", "width": 4, "height": 3, "channels": 3}, None, images_bytes()),
}  # fmt: skip


@pytest.fixture
def put(tmp_path):
    def write(content):
        path = tmp_path / "source"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def asked(architecture, data, tokenizer=None, **members):
    tokens = {} if tokenizer is None else {"tokenizer": tokenizer}
    return PackageRequest.parse({"name": "A test", "architecture": architecture, "data": data, **tokens, **members})


def found(path):
    content = path.read_bytes()
    return FoundFile(path.name, len(content), sha256(content).hexdigest())


def given(driver, path, data_format):
    return {**driver.put(path.read_bytes()), "format": data_format}


@pytest.mark.parametrize("case", CASES)
def test_a_package_passes_the_servers_checks_and_its_module_trains_on_it(case, tmp_path, put):
    architecture, data, tokenizer, content = CASES[case]
    request, source = asked(architecture, data, tokenizer), put(content)
    seen = preview(request, source)
    told = []
    made = make_package(request, source, tmp_path / "made", lambda *step: told.append(step))

    package = parse_package(made.manifest.read_bytes())
    match_files(package.manifest, [found(chunk) for chunk in made.chunks])
    check_validation_file(package, found(made.validation))
    assert {path.name for path in made.files} == {path.name for path in made.folder.iterdir()}
    assert package.manifest.chunks == made.entries

    module = made.module.read_bytes()
    fresh = lambda: Driver(ENGINE, Module(ENGINE, module))  # noqa: E731
    info = parse_model_info(fresh().run("getModelInfo", {}))
    driver = fresh()
    weights = driver.read(**driver.run("createInitialWeights", {"seed": "5"}))
    check_package_against_module(package, info, len(weights), found(made.module))
    assert parse_settings(made.settings, for_experience=False, info=info).to_json() == made.settings

    for path, count in [(made.chunks[0], made.entries[0].example_count), (made.validation, seen.validation_count)]:
        driver = fresh()
        answer = driver.run("inspectData", {"data": given(driver, path, info.data_formats[0].id)})
        assert answer == {"exampleCount": count}
    driver = fresh()
    driver.load(weights)
    settings = {"localEpochs": 2, "batchSize": 16}
    request_ = {"data": given(driver, made.chunks[0], info.data_formats[0].id), "settings": settings}
    trained = driver.run("train", {**request_, "round": 1, "seed": "9"})
    assert trained["uniqueExamples"] == made.entries[0].example_count
    assert np.isfinite(np.frombuffer(driver.read(**trained["weights"]), np.float32)).all()
    assert set(trained["metrics"]) <= info.metric_ids

    assert seen.exact and seen.parameter_count * 4 == seen.weight_bytes == len(weights)
    assert seen.chunk_count == len(made.chunks)
    assert seen.record_count == sum(entry.example_count for entry in made.entries) + seen.validation_count
    assert {advice.code for advice in seen.warnings} == {advice.code for advice in made.warnings}
    assert told[-1] == ("module", 1, 1) and ("chunks", seen.record_count, seen.record_count) in told


def test_the_same_request_gives_the_same_bytes_and_another_seed_does_not(tmp_path, put):
    architecture, data, tokenizer, content = CASES["answers"]
    source = put(content)

    def zipped(name, seed):
        request = asked(architecture, data, tokenizer, chunking={"seed": seed})
        write_zip(make_package(request, source, tmp_path / name), tmp_path / f"{name}.zip")
        return (tmp_path / f"{name}.zip").read_bytes()

    first = zipped("a", 1)
    assert first == zipped("b", 1) != zipped("c", 2)
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
    assert names[:3] == ["manifest.json", "model.wasm", "chunk-00001.bin"] and names[-1] == "validation.bin"


def tokens_of(path):
    """The records of a `weei-tokens` file: (tokens, loss_from)."""
    content = path.read_bytes()
    count = int.from_bytes(content[8:12], "little")
    table = np.frombuffer(content, np.dtype("<u4,<u2,<u2"), count, 16)
    tokens = np.frombuffer(content[16 + 8 * count :], "<u2")
    return [(tokens[first : first + length].tolist(), loss_from) for first, length, loss_from in table.tolist()]


def test_only_the_answer_with_its_end_is_trained_on(tmp_path, put):
    architecture, data, tokenizer, content = CASES["answers"]
    made = make_package(asked(architecture, data, tokenizer), put(content), tmp_path / "made")
    names = [*"+0123456789=", "<EOS>"]
    cut = [
        ("".join(names[t] for t in tokens[:start]), "".join(names[t] for t in tokens[start:]))
        for path in (*made.chunks, made.validation)
        for tokens, start in tokens_of(path)
    ]
    assert sorted(prompt + answer for prompt, answer in cut) == sorted(f"{line}<EOS>" for line in SUMS)
    assert all(prompt.endswith("=") and "=" not in answer for prompt, answer in cut)


def test_windows_share_one_token_with_the_next(tmp_path, put):
    text = "".join(map(chr, range(97, 123))) * 20
    made = make_package(asked(SMALL, {"format": "text"}), put(text), tmp_path / "made")
    windows = [bytes(tokens) for path in (*made.chunks, made.validation) for tokens, _ in tokens_of(path)]
    expected = [text[at : at + 17].encode() for at in range(0, len(text) - 1, 16)]
    assert sorted(windows) == sorted(expected)


def inputs_of(path, count):
    """Of a `weei-rows` file of two float32 inputs and one target."""
    return np.frombuffer(path.read_bytes()[24:], "<f4")[: 2 * count].reshape(count, 2)


def test_statistics_of_a_table_come_from_its_training_part(tmp_path, put):
    request = asked(MLP, {"format": "csv", "label": "y", "task": "regression"})
    made = make_package(request, put(csv_text(regression=True)), tmp_path / "made")
    rows = np.concatenate(
        [inputs_of(path, entry.example_count) for path, entry in zip(made.chunks, made.entries, strict=True)]
    )
    pairs = [(mean, 1 / deviation) for mean, deviation in zip(rows.mean(0, float), rows.std(0, float), strict=True)]
    module = made.module.read_bytes()
    for mean, scale in pairs:
        assert np.array([mean, scale], "<f4").tobytes() in module


# --- What a preview shows ---


def codes(seen):
    return {advice.code for advice in seen.warnings}


def test_the_cut_of_the_founding_note_warns(put):
    """37+48=85<EOS> became "3" | "7+4" | "8=8" | "5<EOS>\\n", and the model never saw a number as its digits."""
    source = put("".join(f"{line}<EOS>\n" for line in [*SUMS, *["37+48=85"] * 40]))
    seen = preview(asked(SMALL, {"format": "text"}, {"kind": "bpe", "merges": 150}), source)
    assert "".join(seen.records[0].tokens) == seen.records[0].text
    assert codes(seen) >= {"tokenizer-joins-operators", "tokenizer-glues-end"}
    texts = {advice.code: advice.text for advice in seen.warnings}
    assert (
        "<EOS>" in texts["tokenizer-glues-end"]
        and "joins a digit with an operator" in texts["tokenizer-joins-operators"]
    )


def test_the_vocabulary_without_merges_and_a_real_end_token_does_not_warn(put):
    source = put("".join(f"{line}<EOS>\n" for line in SUMS))
    seen = preview(asked(SMALL, {"format": "text", "records": "lines"}, NO_MERGES), source)
    assert seen.records[0].tokens == ("0", "+", "0", "=", "0", "<EOS>") and seen.records[0].line == 1
    assert len(seen.records) == 10 and seen.vocabulary_size == 13 and codes(seen) == set()


def test_an_end_that_is_cut_in_pieces_warns(put):
    source = put("".join(f"{line}<EOS>\n" for line in SUMS))
    seen = preview(asked(SMALL, {"format": "text"}, {"kind": "characters"}), source)
    assert codes(seen) == {"end-in-pieces"} and "is cut into 5 tokens" in seen.warnings[0].text


def test_answers_show_where_training_begins(put):
    architecture, data, tokenizer, content = CASES["answers"]
    shown = preview(asked(architecture, data, tokenizer), put(content)).records[0]
    assert (shown.tokens, shown.trained_from, shown.text) == (("0", "+", "0", "=", "0", "<EOS>"), 4, "0+0=0<EOS>")


def test_a_table_is_shown_with_its_label_last(put):
    seen = preview(asked(MLP, {"format": "csv", "label": "size", "columns": ["y"], "task": "regression"}),
                   put(csv_text(regression=True)))  # fmt: skip
    assert seen.table.columns == ("y", "size") and seen.table.rows[1] == ("0.5", "1") and len(seen.table.rows) == 10
    assert seen.table.classes == () and seen.vocabulary_size is None and seen.records == ()


def test_large_files_are_counted_from_a_sample(monkeypatch, put):
    monkeypatch.setattr("weei_core.generator.readers.text.SAMPLE_BYTES", 4000)
    monkeypatch.setattr("weei_core.generator.tables.LOOK_BYTES", 400)
    monkeypatch.setattr("weei_core.generator.readers.csv.BLOCK_ROWS", 16)
    lines = put("".join(f"{line}\n" for line in SUMS * 20))
    for data, records in (
        ({"format": "text"}, lines.stat().st_size / 16),
        ({"format": "text", "records": "lines"}, 13600),
    ):
        seen = preview(asked(SMALL, data), lines)
        assert not seen.exact and seen.record_count == pytest.approx(records, rel=0.1)
    seen = preview(asked(MLP, {"format": "csv", "label": "y"}), put(csv_text(3000)))
    assert not seen.exact and seen.record_count == pytest.approx(3000, rel=0.5)


@pytest.mark.parametrize("members, expected", [
    ({"chunking": {"recordsPerChunk": 10_000}, "training": {"aggregation": MOMENTUM}}, "momentum-one-chunk"),
    ({"chunking": {"recordsPerChunk": 100}, "training": {"aggregation": MOMENTUM}}, "momentum-few-rounds"),
    ({"training": {"aggregation": MOMENTUM, "participants": 10}}, "momentum-few-rounds"),
    ({"chunking": {"validationShare": 0}}, "no-validation-data"),
    ({"chunking": {"recordsPerChunk": 1}}, "one-example-per-chunk"),
    ({"training": {"memoryBudgetBytes": 300}}, "chunk-over-memory-budget"),
    ({"training": {"memoryBudgetBytes": 1 << 20}}, "training-over-memory-budget"),
])  # fmt: skip
def test_settings_that_have_done_harm_warn_before_and_after(tmp_path, put, members, expected):
    architecture, data, tokenizer, content = CASES["lines"]
    request, source = asked(architecture, data, tokenizer, **members), put(content)
    assert expected in codes(preview(request, source))
    assert expected in codes(make_package(request, source, tmp_path / "made"))


def test_a_quantity_as_label_warns(put):
    seen = preview(asked(MLP, {"format": "csv", "label": "y"}), put(csv_text(regression=True)))
    assert "label-has-many-values" in codes(seen)


# --- Refusals leave nothing behind ---


@pytest.mark.parametrize("data, content, reason", [
    ({"format": "csv", "label": "y"}, "a,y\n1,p\nx,q\n2,\n", 'line 3 must have a number.*line 4 has no value'),
    ({"format": "csv", "label": "y"}, "a,y\n1,p\n2,p\n", "at least two different values; found 1 in 2 records"),
    ({"format": "csv", "label": "y"}, "a,y\n", "at least one row; found none"),
    ({"format": "jsonl"}, answers(("1+1=", "2"), ("", "3"), ("2", ""), ("9" * 20, "1")),
     "line 2 has an empty prompt; .*more tokens than the 17 that fit a context of 16"),
    ({"format": "jsonl", "text": "prompt"}, answers(("1", "")), "line 1 has fewer than two tokens"),
    ({"format": "text"}, "a", "at least two tokens of text; found fewer"),
    ({"format": "text", "records": "lines"}, "\n\n", "at least two tokens"),
    ({"format": "text"}, "", "found an empty file"),
    ({"format": "npz"}, "no zip", "must be a zip archive that can be read"),
    ({"format": "images"}, images_bytes()[:-30], "must be a zip archive"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_and_nothing_is_made(tmp_path, put, data, content, reason):
    is_text = data["format"] in ("text", "jsonl")
    request = asked(SMALL if is_text else MLP, data, {"kind": "characters"} if is_text else None)
    source = put(content)
    for attempt in (lambda: preview(request, source), lambda: make_package(request, source, tmp_path / "made")):
        with pytest.raises(Invalid, match=reason):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_folder_that_holds_something_is_left_alone(tmp_path, put):
    architecture, data, _, content = CASES["classes"]
    folder = tmp_path / "made"
    folder.mkdir()
    make_package(asked(architecture, data), put(content), folder)
    before = sorted(folder.iterdir())
    with pytest.raises(Conflict, match="must be new or empty; made holds something"):
        make_package(asked(architecture, data), put(content), folder)
    assert sorted(folder.iterdir()) == before


def test_data_that_would_fill_the_disk_are_refused(monkeypatch, tmp_path, put):
    monkeypatch.setattr(spools, "MAX_SPOOL_BYTES", 400)
    for case in ("windows", "classes", "images"):
        architecture, data, tokenizer, content = CASES[case]
        with pytest.raises(TooLarge, match="at most 400 bytes once they are read"):
            make_package(asked(architecture, data, tokenizer), put(content), tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("data, tokenizer, megabytes", [
    ({"format": "text"}, {"kind": "bytes"}, 128),
    ({"format": "text"}, {"kind": "bpe", "merges": 50}, 10),
    ({"format": "text", "records": "lines"}, NO_MERGES, 16),
    ({"format": "csv", "label": "y"}, None, 12),
])  # fmt: skip
@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path, data, tokenizer, megabytes):
    """In a child whose heap may grow by 128 MiB, whatever the file's size; the page cache holds the rest."""
    source = tmp_path / "source"
    numbers = np.random.default_rng(0).integers(0, 1000, (20_000, 2)).tolist()
    kind = "{},{}.5,no\n" if data["format"] == "csv" else "{} and {} are numbers between plain words\n"
    block = "".join(kind.format(*pair) for pair in numbers).encode()
    with source.open("wb") as file:
        file.write(b"a,b,y\n1,2,yes\n" if data["format"] == "csv" else b"")
        while file.tell() < megabytes << 20:
            file.write(block)
    request = {
        "name": "Large",
        "architecture": {**SMALL, "context": 64} if tokenizer else MLP,
        "data": data,
        **({"tokenizer": tokenizer} if tokenizer else {}),
    }
    script = (
        "import json, resource, sys; from pathlib import Path\n"
        "from weei_core.generator.package import make_package, preview\n"
        "from weei_core.generator.request import PackageRequest\n"
        "used = int(next(l for l in open('/proc/self/status') if l.startswith('VmData')).split()[1]) << 10\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (used + (128 << 20), used + (128 << 20)))\n"
        "request, source = PackageRequest.parse(json.loads(sys.argv[1])), Path(sys.argv[2])\n"
        "preview(request, source)\n"
        "print(len(make_package(request, source, Path(sys.argv[3])).chunks))\n"
    )
    arguments = [json.dumps(request), str(source), str(tmp_path / "made")]
    child = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert int(child.stdout) >= 2
