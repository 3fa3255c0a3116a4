"""The WGSL archive: the shaders that let a model package train on the GPU."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field, model_validator

from weei_core import strict_json
from weei_core.dataset_manifest import FoundFile
from weei_core.errors import Invalid
from weei_core.schema_types import FileRef, Loose, One, Sha256, Text, validate
from weei_core.strict_json import shown

MAX_SHADER_MODULES = 64
MAX_SHADER_BYTES = 2**20
MAX_ARCHIVE_BYTES = 2 * MAX_SHADER_MODULES * MAX_SHADER_BYTES  # line ends and quotes take two bytes in JSON


class ShaderRef(Loose):
    id: Text
    sha256: Sha256


class ShaderArchive(FileRef):
    """What a package says about its archive."""

    modules: Annotated[tuple[ShaderRef, ...], Field(min_length=1, max_length=MAX_SHADER_MODULES)]

    @model_validator(mode="after")
    def _ids_differ(self) -> ShaderArchive:
        _refuse_repeated_ids(self.modules)
        return self


class ShaderModule(ShaderRef):
    code: str


class WgslArchive(Loose):
    schema_name: Annotated[Literal["weei-wgsl-archive"], Field(alias="schema")]
    schema_version: One
    modules: Annotated[tuple[ShaderModule, ...], Field(min_length=1, max_length=MAX_SHADER_MODULES)]

    @model_validator(mode="after")
    def _ids_differ(self) -> WgslArchive:
        _refuse_repeated_ids(self.modules)
        return self


def _refuse_repeated_ids(modules: tuple[ShaderRef, ...]) -> None:
    ids = [module.id for module in modules]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise ValueError(f"must have modules with ids that differ; found {shown(twice)} twice")


def parse_wgsl_archive(data: bytes) -> WgslArchive:
    """Read an archive; every module's code has the hash that stands beside it."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise Invalid(
            f"The WGSL archive must be at most {MAX_ARCHIVE_BYTES} bytes; found {len(data)}.", field="wgslArchive"
        )
    archive = validate(WgslArchive, strict_json.loads(data, what="wgslArchive"), "wgslArchive")
    for index, module in enumerate(archive.modules):
        _check_code(module, f"wgslArchive.modules[{index}]")
    return archive


def _check_code(module: ShaderModule, path: str) -> None:
    code = module.code.encode()
    if len(code) > MAX_SHADER_BYTES:
        raise Invalid(f"{path}.code must be at most {MAX_SHADER_BYTES} bytes; found {len(code)}.", field=f"{path}.code")
    found = hashlib.sha256(code).hexdigest()
    if found != module.sha256:
        raise Invalid(
            f"{path}.sha256 must be the hash of the code of module {shown(module.id)}, {found}; found {module.sha256}.",
            field=f"{path}.sha256",
        )


def check_archive_file(file: FoundFile, declared: ShaderArchive | None) -> None:
    """The selected WGSL file is the package's own; can be told before the file is read."""
    if declared is None:
        raise Invalid(
            f"A WGSL file needs a model package that declares it as its shaderArchive; found {shown(file.name)} "
            "without such a package.",
            field="executionFiles",
        )
    expected = FoundFile(declared.file_name, declared.bytes, declared.sha256)
    if file != expected:
        raise Invalid(
            "The WGSL file must be the package's shaderArchive: "
            f"{shown(expected.name)}, {expected.bytes} bytes, SHA-256 {expected.sha256}; "
            f"found {shown(file.name)}, {file.bytes} bytes, SHA-256 {file.sha256}.",
            field="executionFiles",
        )


def check_archive_modules(archive: WgslArchive, declared: ShaderArchive) -> None:
    """The archive holds the modules that the package lists, and no others."""
    listed = {module.id: module.sha256 for module in declared.modules}
    for module in archive.modules:
        if listed.get(module.id) != module.sha256:
            expected = listed.get(module.id, "a module that the package lists")
            raise Invalid(
                f"WGSL module {shown(module.id)} must be {expected}; found SHA-256 {module.sha256}.",
                field="wgslArchive.modules",
            )
    missing = listed.keys() - {module.id for module in archive.modules}
    if missing:
        raise Invalid(f"WGSL module {shown(min(missing))} is missing from the archive.", field="wgslArchive.modules")
