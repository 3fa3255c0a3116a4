"""What all participants of a swarm have in common."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TextIO

from tests.load.behaviour import Behaviour
from tests.load.counting import Counters


@dataclass
class Shared:
    """What all participants of a swarm have in common."""

    url: str
    origin: str
    seed: int
    behaviour: Behaviour
    counters: Counters
    invitation: str | None = None
    """The token of a link; None where the participants are members already."""
    fetched: set[str] = field(default_factory=set)
    """Files that do not change, by hash: verified once for all of this swarm."""
    spoiled: set[str] = field(default_factory=set)
    """Items that were answered badly since they were last accepted: three errors of one would pause its job."""
    record: TextIO | None = None
    """Gets a line of JSON for each update that the server answered 2xx to, before anything else is done."""

    def note(self, attempt: str, sha256: str) -> None:
        if self.record is not None:
            print(json.dumps({"attempt": attempt, "sha256": sha256}), file=self.record, flush=True)
