"""One assignment as work for jailed children: the agent, rebuilding and simulations play it alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weei_core import strict_json
from weei_core.abi.requests import DataRange, Units, Work
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo
from weei_core.ranges import divided, merge_ranges
from weei_core.results import TrainResult, parse_train_result


def loaded_files(weights: Path, auxiliary: Iterable[Path]) -> dict[str, InputFile]:
    """What `loadModel` and each `loadAuxiliary`, in declared order, read in a task of `weei_core.abi.tasks`."""
    slots = {f"auxiliary/{index}": InputFile(path) for index, path in enumerate(auxiliary)}
    return {"weights": InputFile(weights), **slots}


@dataclass(frozen=True)
class Assignment:
    """Everything that an update is a function of, beside the module itself.

    `settings` is the text that the module gets. `records` is the number of records of `data`, `units` is for
    experience. `auxiliary` holds the file of each slot by id, in declared order.
    """

    round: int
    settings: str
    seed: str
    info: ModelInfo
    start: Path
    auxiliary: Mapping[str, Path]
    data: Path | None = None
    part: DataRange | None = None
    records: int = 0
    units: Units | None = None
    split: int = 1

    def ranges(self) -> Sequence[Units | None]:
        """What is played by itself: the ranges of a divided assignment, else the one that it is."""
        return [None] if self.units is None else divided(self.units, self.split)

    def task(self, units: Units | None) -> tuple[dict[str, Any], dict[str, InputFile]]:
        """A task of `weei_core.abi.tasks` that plays one of `ranges`, and the files it reads."""
        work = Work(settings=self.settings, round=self.round, seed=self.seed, data=self.part, units=units)
        inputs = loaded_files(self.start, self.auxiliary.values())
        if self.data is not None:
            inputs["data"] = InputFile(self.data)
        return {"operation": "train", "auxiliary": list(self.auxiliary), "work": asdict(work)}, inputs

    def result(self, units: Units | None, outcome: Mapping[str, object]) -> TrainResult:
        """The checked TrainResult out of what that task answered."""
        return parse_train_result(
            strict_json.loads(str(outcome["result"]), what="train"),
            assigned=units.unit_count if units else self.records,
            experience=units is not None,
            declared_metrics=self.info.metric_ids,
        )

    def play(self, jail: Jail, out: Path) -> TrainResult:
        """Write the update to `out`, range after range."""
        ranges = self.ranges()
        files = [out] if len(ranges) == 1 else [out.with_suffix(f".{k}") for k in range(len(ranges))]
        played = [(file, self._play(jail, units, file)) for file, units in zip(files, ranges, strict=True)]
        return played[0][1] if len(played) == 1 else merge_ranges(self.start, played, out)

    def _play(self, jail: Jail, units: Units | None, out: Path) -> TrainResult:
        task, inputs = self.task(units)
        with out.open("w+b") as file:
            return self.result(units, jail.run(task, inputs, {"weightsOut": file}))
