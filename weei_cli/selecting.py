"""Which files a new job is made of: those that were named, and those that the manifest names, found in folders."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weei_cli.outcomes import failure_of, usage
from weei_cli.settings import settings_file
from weei_core.dataset_manifest import DatasetManifest, ExpectedFile, FoundFile, match_files
from weei_core.errors import WeeiError
from weei_core.model_package import MAX_PACKAGE_BYTES, ModelPackage, parse_any_manifest

PRESET = "preset.json"
"""Beside the module of a shipped model: the names of its files, and settings that suit it."""
MOST_LISTED = 5


@dataclass
class Chosen:
    """A file on this machine. `sha256` is filled in when it was read."""

    path: Path
    name: str
    bytes: int
    sha256: str = ""

    def to_json(self) -> dict[str, object]:
        return {"fileName": self.name, "bytes": self.bytes, "sha256": self.sha256}


@dataclass
class Selection:
    module: Chosen
    manifest: Chosen
    files: list[Chosen]
    validation: Chosen | None = None
    execution: list[Chosen] = field(default_factory=list)
    checkpoint: Chosen | None = None
    name: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    expected: tuple[DatasetManifest, Sequence[ExpectedFile]] | None = None

    def all(self) -> Iterator[Chosen]:
        yield from (self.module, self.manifest, *self.files, *self.execution)
        yield from (file for file in (self.validation, self.checkpoint) if file is not None)

    def check(self) -> None:
        """What the server would refuse is refused before a byte is sent."""
        if self.expected is None:
            return
        manifest, also = self.expected
        try:
            match_files(manifest, [FoundFile(file.name, file.bytes, file.sha256) for file in self.files], also=also)
        except WeeiError as error:
            raise failure_of(error) from None


def select(options: argparse.Namespace, scratch: Path) -> Selection:
    """The files for `weei create`. Raises `Failed` naming what is missing. `scratch` is where a zip is unpacked."""
    folder = _folder(options.package, scratch)
    preset = settings_file(folder / PRESET) if folder is not None and (folder / PRESET).is_file() else {}
    module = options.module or _one(folder, preset, "module", "*.wasm")
    manifest = options.manifest or _one(folder, preset, "manifest", "manifest.json")
    parsed = _parsed(manifest)
    listed, also = _listed(parsed)
    places = options.files or [folder or manifest.parent]
    names = [file.file_name for file in [*listed.chunks, *also]]
    validation = options.validation or _validation(folder, preset, parsed)
    execution = options.execution_file or _execution(folder, parsed)
    return Selection(
        module=_chosen(module),
        manifest=_chosen(manifest),
        files=[_chosen(path) for path in _find(places, names)],
        validation=_chosen(validation) if validation else None,
        execution=[_chosen(execution)] if execution else [],
        checkpoint=_chosen(options.checkpoint) if options.checkpoint else None,
        name=preset.get("name"),
        settings=dict(preset.get("settings", {})) | ({"coordinatorParticipates": False} if preset else {}),
        expected=(listed, also),
    )


def _chosen(path: Path) -> Chosen:
    if not path.is_file():
        raise usage(f"{path} is not a file.", "no_file")
    return Chosen(path, path.name, path.stat().st_size)


def _folder(package: Path | None, scratch: Path) -> Path | None:
    if package is None or package.is_dir():
        return package
    if not package.is_file():
        raise usage(f"{package} is not there.", "no_file")
    try:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(scratch)  # keeps every member inside
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise usage(f"{package} is neither a folder nor a zip that can be read: {error}.", "not_a_package") from None
    return scratch


def _one(folder: Path | None, preset: dict[str, Any], what: str, pattern: str) -> Path:
    if folder is None:
        raise usage(f"Name the {what}: --{what} FILE, or a PACKAGE that holds it.", "missing_file")
    if what in preset:
        return folder / str(preset[what])
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found[:MOST_LISTED]) or "none"
        raise usage(f"{folder} must hold one {pattern}; found {names}. Name it by --{what}.", "missing_file")
    return found[0]


def _parsed(path: Path) -> DatasetManifest | ModelPackage:
    if (size := _chosen(path).bytes) > MAX_PACKAGE_BYTES:
        raise usage(f"{path} has {size} bytes; a manifest has at most {MAX_PACKAGE_BYTES}.", "too_large")
    try:
        return parse_any_manifest(path.read_bytes())
    except WeeiError as error:
        raise failure_of(error) from None


def _listed(parsed: DatasetManifest | ModelPackage) -> tuple[DatasetManifest, Sequence[ExpectedFile]]:
    return (parsed.manifest, parsed.auxiliary_files) if isinstance(parsed, ModelPackage) else (parsed, ())


def _find(places: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """The file of each name: one that was given itself, else one in the folders that were given."""
    known: dict[str, list[Path]] = {}
    given: list[Path] = []
    for place in places:
        if not place.exists():
            raise usage(f"{place} is not there.", "no_file")
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            known.setdefault(path.name, []).append(path)
        given += [] if place.is_dir() else [place]
    missing = [name for name in names if name not in known]
    if missing:
        more = f" and {len(missing) - MOST_LISTED} more" if len(missing) > MOST_LISTED else ""
        raise usage(
            f"The manifest names files that were not found: {', '.join(missing[:MOST_LISTED])}{more}.", "missing_file"
        )
    twice = [name for name in names if len(known[name]) > 1]
    if twice:
        raise usage(
            f"There are several files {twice[0]}: {known[twice[0]][0]} and {known[twice[0]][1]}. Name one.", "ambiguous"
        )
    wanted = set(names)
    return [known[name][0] for name in names] + [path for path in given if path.name not in wanted]


def _validation(folder: Path | None, preset: dict[str, Any], parsed: DatasetManifest | ModelPackage) -> Path | None:
    """Only a package names its held-out data; it may stay at home."""
    if folder is None:
        return None
    if preset.get("validation"):
        return folder / str(preset["validation"])
    if isinstance(parsed, ModelPackage) and parsed.file.validation is not None:
        return _named(folder, parsed.file.validation.file_name)
    return None


def _execution(folder: Path | None, parsed: DatasetManifest | ModelPackage) -> Path | None:
    archive = parsed.file.shader_archive if isinstance(parsed, ModelPackage) else None
    if folder is None or archive is None:
        return None
    return _named(folder, archive.file_name)


def _named(folder: Path, name: str) -> Path | None:
    return next((path for path in sorted(folder.rglob("*")) if path.name == name), None)
