"""Settings and ModelInfo out of the texts of rows. They were checked when they were stored, and both are immutable, so
that one reading of a text serves every round of its job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from jobs.models import Job
from weei_core import strict_json
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.model_package import parse_package
from weei_core.training_settings import TrainingSettings, parse_settings


@lru_cache(maxsize=256)
def parse_settings_text(text: str, *, for_experience: bool = False) -> TrainingSettings:
    return parse_settings(strict_json.loads(text), for_experience=for_experience)


@lru_cache(maxsize=64)
def parse_info_text(text: str) -> ModelInfo:
    return parse_model_info(text.encode())


def info_of(job: Job) -> ModelInfo:
    return parse_info_text(job.model_info_text)


def settings_of(job: Job) -> TrainingSettings:
    return settings_in(job, job.settings_text)


def settings_in(job: Job, text: str) -> TrainingSettings:
    """Settings that the job had at some moment: those of a round, or of a checkpoint."""
    return parse_settings_text(text, for_experience=info_of(job).is_experience)


@dataclass(frozen=True)
class Runs:
    """How a job's model may run, as far as every participant is told."""

    cpu_backend: str = "cpu-wasm"
    shaders: tuple[str, ...] = ()
    """SHA-256 of each module of the package's WGSL archive."""


@lru_cache(maxsize=64)
def parse_runs_text(text: str) -> Runs:
    package = parse_package(text.encode()).file
    cpu = next(backend.id for backend in package.execution.backends if backend.kind == "cpu")
    archive = package.shader_archive
    return Runs(cpu, tuple(module.sha256 for module in archive.modules) if archive else ())


def runs_of(job: Job) -> Runs:
    """A plain list of chunks names no backends."""
    return parse_runs_text(job.package_text) if job.package_text else Runs()
