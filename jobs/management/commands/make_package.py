"""`manage.py make_package`: a model package of a data file, without a compiler and without training anything."""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from weei_core import strict_json
from weei_core.aggregation import METHOD_IDS
from weei_core.errors import Conflict, WeeiError
from weei_core.generator.architectures import ACTIVATIONS
from weei_core.generator.package import MadePackage, Preview, make_package, preview, write_zip
from weei_core.generator.request import DELIMITERS, FORMATS, PackageRequest
from weei_core.generator.training import OPTIMIZERS
from weei_core.strict_json import JsonValue, as_object

MAX_REQUEST_BYTES = 2**20

_ENDINGS = {"csv": "csv", "tsv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "npz": "npz", "zip": "images"}
_WHERE = {
    "data": ("format", "label", "task", "columns", "delimiter", "records", "prompt", "answer", "text", "x", "y"),
    "architecture": ("kind", "hidden", "activation", "context", "layers", "heads", "width"),
    "tokenizer": ("tokenizer", "merges", "endToken", "specials", "base"),
    "chunking": ("recordsPerChunk", "seed", "validationShare"),
    "training": ("batchSize", "localEpochs", "epochs", "learningRate", "optimizer", "participants"),
}
"""The parts of a request, and the options that belong to each."""


class Command(BaseCommand):
    help = (
        "Makes a model package (model.wasm, manifest.json, chunks, validation.bin) of a data file. Shows how the data "
        "are read and cut, and warns of known traps; with neither --out nor --zip it does only that. See "
        "docs/packages.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--data", type=Path, required=True, metavar="FILE", help="text, JSON lines, CSV, NPZ or a zip of pictures")
        add("--request", type=Path, metavar="FILE", help="all of a request as JSON; other options change it")
        add("--name", help="of the model (default: the data file's)")
        add("--out", type=Path, metavar="DIR", help="write the package into this new folder")
        add("--zip", type=Path, metavar="FILE", help="write the package as one zip")
        add("--json", action="store_true", dest="as_json", help="print one JSON object instead of sentences")
        _data_options(parser)
        _model_options(parser)
        _tokenizer_options(parser)
        _chunking_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            request = PackageRequest.parse(request_of(options))
            seen = preview(request, options["data"])
            if not options["as_json"]:
                self.stdout.writelines(f"{line}\n" for line in shown(seen))
            made = self._made(request, options)
        except WeeiError as error:
            raise CommandError(error.message) from None
        if options["as_json"]:
            self.stdout.write(json.dumps({"preview": preview_json(seen), "made": made}))
        elif made is not None:
            self.stdout.write(f"Wrote {made['target']}: {made['files']} files, {made['chunkBytes']} bytes of chunks.")
            self.stdout.write(f"Suggested settings: {json.dumps(made['settings'])}")

    def _made(self, request: PackageRequest, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was written, None if nothing was asked for."""
        if options["out"]:
            return _written(make_package(request, options["data"], options["out"]), options["out"])
        target = options["zip"]
        if not target:
            return None
        if target.exists():
            raise Conflict(f"The zip must be a new file; {target.name} is there already.", field="zip")
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
            made = make_package(request, options["data"], Path(folder) / "package")
            write_zip(made, target)
            return _written(made, target)


def _data_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("data").add_argument
    add("--format", choices=FORMATS, help="default: by the file's ending, else text")
    add("--label", metavar="COLUMN", help="CSV: what is to be predicted")
    add("--task", choices=("classification", "regression"), help="CSV and NPZ")
    add("--columns", type=_names, metavar="A,B", help="CSV: the inputs (default: every other column)")
    add("--delimiter", choices=[name for name in DELIMITERS if name.isprintable()], help="CSV (default: a comma)")
    add("--records", choices=("windows", "lines"), help="text: windows over all of it, or each line by itself")
    for name in ("prompt", "answer", "text"):
        add(f"--{name}", metavar="FIELD", help=f"JSON lines: the field with the {name}")
    add("--x", metavar="ARRAY", help="NPZ: the inputs")
    add("--y", metavar="ARRAY", help="NPZ: classes or targets")
    add("--size", type=_size, metavar="WxH", help="pictures: what all are brought to (default: 28x28)")
    add("--rgb", action="store_true", help="pictures: in colour instead of grey")


def _model_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("model").add_argument
    add("--architecture", choices=("mlp", "transformer"), dest="kind", help="default: what fits the data")
    add("--hidden", type=_numbers, metavar="64,64", help="widths of hidden layers; of a transformer's one")
    add("--activation", choices=ACTIVATIONS)
    for name in ("context", "layers", "heads", "width"):
        add(f"--{name}", type=int, metavar="N", help="of a transformer")
    add("--batch-size", type=int, metavar="N", dest="batchSize")
    add("--local-epochs", type=int, metavar="N", dest="localEpochs")
    add("--epochs", type=int, metavar="N", help="suggested passes over the data")
    add("--learning-rate", type=float, metavar="X", dest="learningRate")
    add("--optimizer", choices=OPTIMIZERS)
    add("--aggregation", choices=METHOD_IDS, help="suggested; the warnings look at it")
    add("--participants", type=int, metavar="N", help="that are expected; for the warnings")


def _tokenizer_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("tokenizer, for text").add_argument
    add("--tokenizer", choices=("bytes", "characters", "bpe"), help="default: bytes, or bpe with --merges")
    add("--merges", type=int, metavar="N", help="of bpe; 0 is one token for each character")
    add("--base", choices=("characters", "bytes"), help="what bpe merges (default: characters)")
    add("--end-token", metavar="TEXT", dest="endToken", help="set behind every line, text or answer, as <EOS>")
    add("--special", action="append", metavar="TEXT", dest="specials", help="another token of its own; repeatable")


def _chunking_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("chunks").add_argument
    add("--records-per-chunk", type=int, metavar="N", dest="recordsPerChunk", help="default: about 50 chunks")
    add("--seed", metavar="N", help="of the shuffled order (default: 0)")
    add("--validation-share", type=float, metavar="X", dest="validationShare", help="held out (default: 0.1)")


def request_of(options: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The request as JSON: `--request` if given, with every other option in the place of its own member."""
    request = _read(options["request"]) if options["request"] else {}
    for part, names in _WHERE.items():
        given = {name: options[name] for name in names if options[name] is not None}
        if given:
            request[part] = {**as_object(request.get(part) or {}, part), **given}
    request["name"] = options["name"] or request.get("name") or options["data"].stem
    data = request["data"] = {**as_object(request.get("data") or {}, "data"), **_picture(options)}
    data.setdefault("format", _ENDINGS.get(options["data"].suffix[1:].lower(), "text"))
    if options["data"].suffix.lower() == ".tsv":
        data.setdefault("delimiter", "tab")
    _complete_model(request, reads_text=data["format"] in ("text", "jsonl"))
    if options["aggregation"]:
        training = as_object(request.get("training") or {}, "training")
        request["training"] = {**training, "aggregation": {"method": options["aggregation"]}}
    return request


def _read(path: Path) -> dict[str, JsonValue]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_REQUEST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"The request must be a file that can be read: {error}") from None
    return dict(as_object(strict_json.loads(content, what="request"), "request"))


def _picture(options: Mapping[str, Any]) -> dict[str, JsonValue]:
    size = options["size"] or ()
    return {**dict(zip(("width", "height"), size, strict=False)), **({"channels": 3} if options["rgb"] else {})}


def _complete_model(request: dict[str, JsonValue], *, reads_text: bool) -> None:
    architecture = {"kind": "transformer" if reads_text else "mlp", **as_object(request.get("architecture") or {}, "")}
    hidden = architecture.get("hidden")
    if architecture["kind"] == "transformer" and isinstance(hidden, list) and len(hidden) == 1:
        architecture["hidden"] = hidden[0]
    request["architecture"] = architecture
    tokens = request.get("tokenizer")
    if isinstance(tokens, dict):
        kind = tokens.pop("tokenizer", None) or tokens.get("kind")
        tokens["kind"] = kind or ("bpe" if "merges" in tokens else "bytes")


def shown(seen: Preview) -> Iterator[str]:
    """A preview as lines of text."""
    for record in seen.records:
        place = "" if record.line is None else f"line {record.line}: "
        yield place + " | ".join(json.dumps(token, ensure_ascii=False) for token in record.tokens)
    if seen.table:
        yield "\t".join(seen.table.columns)
        yield from ("\t".join(row) for row in seen.table.rows)
        if seen.table.classes:
            yield f"Classes: {', '.join(seen.table.classes)}"
    about = "" if seen.exact else "about "
    yield (
        f"{about}{seen.record_count} records, {about}{seen.validation_count} of them held out, in {about}"
        f"{seen.chunk_count} chunks; the largest file has about {seen.chunk_bytes} bytes."
    )
    vocabulary = "" if seen.vocabulary_size is None else f"{seen.vocabulary_size} tokens, "
    yield (
        f"{vocabulary}{seen.parameter_count} weights of {seen.weight_bytes} bytes; a training takes up to "
        f"{seen.memory_bytes} bytes of memory."
    )
    yield from (f"Warning: {advice.text}" for advice in seen.warnings)


def preview_json(seen: Preview) -> dict[str, Any]:
    return {
        **asdict(seen),
        "warnings": [advice._asdict() for advice in seen.warnings],
    }


def _written(made: MadePackage, target: Path) -> dict[str, Any]:
    return {
        "target": str(target),
        "files": len(made.files),
        "chunkBytes": sum(chunk.bytes for chunk in made.entries),
        "settings": made.settings,
        "warnings": [advice._asdict() for advice in made.warnings],
    }


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _size(text: str) -> tuple[int, int]:
    width, height = text.lower().split("x")
    return int(width), int(height)
