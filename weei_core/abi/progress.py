"""Which progress reports of a module are shown. Bad ones are dropped and counted; training goes on (C61).

Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from weei_core import strict_json
from weei_core.errors import Invalid
from weei_core.strict_json import JsonValue

Report = dict[str, JsonValue]
OnProgress = Callable[[Report], None]


class ProgressFilter:
    """Lets a report through when it is well formed, not above its total and not below the one before.

    `interval` is the shortest time between two reports that are looked at (0: all of them).
    """

    def __init__(self, interval: float = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = 0
        self._interval = interval
        self._clock = clock
        self._next = -float("inf")
        self._highest = 0

    def is_due(self) -> bool:
        """Asked before a report is even read, so that a flood costs little."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + self._interval
        return True

    def drop(self) -> None:
        self.dropped += 1

    def accept(self, data: bytes | Report) -> Report | None:
        """The report, reduced to the fields of the ABI; None when it is bad, which is counted."""
        try:
            report = self._checked(strict_json.loads(data, what="report") if isinstance(data, bytes) else data)
        except Invalid:
            self.drop()
            return None
        self._highest = int(str(report["processedExamples"]))
        return report

    def _checked(self, value: object) -> Report:
        members = strict_json.as_object(value, "report")
        total = members.get("totalExamples")
        highest = strict_json.EXACT_INT if total is None else strict_json.as_int(total, "totalExamples", 0, 2**53)
        processed = strict_json.as_int(members.get("processedExamples"), "processedExamples", self._highest, highest)
        report: Report = {"processedExamples": processed}
        if total is not None:
            report["totalExamples"] = highest
        if members.get("optimizerSteps") is not None:
            report["optimizerSteps"] = strict_json.as_int(members["optimizerSteps"], "optimizerSteps", 0, 2**53)
        if members.get("metrics") is not None:
            metrics = strict_json.as_object(members["metrics"], "metrics")
            report["metrics"] = {
                name: strict_json.as_number(number, "metrics") for name, number in metrics.items() if number is not None
            }
        return report
