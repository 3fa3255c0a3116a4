"""Whether the store holds what the database says: every artifact's bytes, by their hash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checkpoints.models import Artifact
from checkpoints.services.artifacts import artifact_body
from checkpoints.store import store
from weei_core.errors import Conflict


@dataclass(frozen=True)
class Looked:
    """One artifact. `problem` is empty when its bytes are whole."""

    sha256: str
    bytes: int
    problem: str = ""


def artifacts_verify() -> Iterator[Looked]:
    """Every artifact that is present, in the order of their hashes. Reads every stored byte."""
    rows = Artifact.objects.filter(state=Artifact.State.PRESENT).order_by("sha256")
    for artifact in rows.iterator(chunk_size=200):
        problem = ""
        try:
            if artifact_body(artifact) is None:
                store().check_stored(artifact.sha256)
        except Conflict as error:
            problem = error.message
        yield Looked(artifact.sha256, artifact.bytes, problem)
