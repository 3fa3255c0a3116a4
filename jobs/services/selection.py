"""The files that a request to make a job names, with the sizes that they have in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkpoints.models import Artifact
from weei_core import strict_json
from weei_core.dataset_manifest import FoundFile
from weei_core.errors import Invalid
from weei_core.schema_types import Exact, FileName, Positive, Sha256, validate


class _Named(Exact):
    """A file as a client names it. What it says of the size is compared with nothing; the store knows it."""

    file_name: FileName
    bytes: Positive
    sha256: Sha256


@dataclass(frozen=True)
class Selection:
    """`data`: chunks and auxiliary weights. `execution`: a WGSL archive."""

    module: FoundFile
    manifest: FoundFile
    data: list[FoundFile]
    execution: list[FoundFile]
    validation: FoundFile | None
    checkpoint: FoundFile | None


def selection_of(request: dict[str, Any]) -> Selection:
    """Raises `Invalid` for a name that is none, and for files that are not stored any more."""
    given = {name: _named(request, name) for name in ("module", "manifest", "validation", "checkpoint")}
    lists = {name: _list(request, name) for name in ("files", "executionFiles")}
    every = [*(file for file in given.values() if file), *lists["files"], *lists["executionFiles"]]
    hashes = {file.sha256 for file in every}
    present = Artifact.objects.filter(sha256__in=hashes, state=Artifact.State.PRESENT)
    sizes = dict(present.values_list("sha256", "bytes"))
    gone = [file.file_name for file in every if file.sha256 not in sizes]
    if gone:
        raise Invalid(
            f"The files must be stored on the server; not found: {', '.join(gone[:20])}. Upload them again.",
            field="files",
            code="artifact_gone",
            files=gone,
        )

    def stored(file: _Named) -> FoundFile:
        return FoundFile(file.file_name, sizes[file.sha256], file.sha256)

    def one(name: str) -> FoundFile | None:
        file = given[name]
        return None if file is None else stored(file)

    module, manifest = one("module"), one("manifest")
    if module is None or manifest is None:
        missing = "module" if module is None else "manifest"
        raise Invalid(f"{missing} must name a file; found none.", field=missing)
    return Selection(
        module,
        manifest,
        [stored(file) for file in lists["files"]],
        [stored(file) for file in lists["executionFiles"]],
        one("validation"),
        one("checkpoint"),
    )


def _named(request: dict[str, Any], name: str) -> _Named | None:
    value = request.get(name)
    return None if value is None else validate(_Named, value, name)


def _list(request: dict[str, Any], name: str) -> list[_Named]:
    values = strict_json.as_list(request.get(name) or [], name)
    return [validate(_Named, value, f"{name}[{index}]") for index, value in enumerate(values)]
