"""JSON lines: one object a line, of which one or two text fields make a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from weei_core import strict_json
from weei_core.errors import Invalid
from weei_core.generator.readers.text import Lines
from weei_core.generator.records import BadRows, TextRecord
from weei_core.generator.request import JsonLinesData
from weei_core.strict_json import shown


class JsonLineRecords:
    """Records of the fields that `data` names; other fields are ignored, blank lines skipped."""

    def __init__(self, path: Path, data: JsonLinesData, bad: BadRows) -> None:
        self.lines = Lines(path, bad)
        self._names = [name for name in (data.text, data.prompt, data.answer) if name is not None]
        self._bad = bad

    def __iter__(self) -> Iterator[TextRecord]:
        return self._records(self.lines)

    def sampled(self) -> Iterator[TextRecord]:
        return self._records(self.lines.sampled())

    def progress(self) -> tuple[int, int]:
        return self.lines.progress()

    def _records(self, lines: Iterable[tuple[int | None, str]]) -> Iterator[TextRecord]:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                yield TextRecord(number, self._parts(line))
            except Invalid as error:
                self._bad.add("in a sample" if number is None else number, error.message)

    def _parts(self, line: str) -> tuple[str, ...]:
        """Raises Invalid with what follows the line's number in a sentence."""
        try:
            value = strict_json.loads(line)
        except Invalid as error:
            raise Invalid(error.message.removeprefix("JSON ").removesuffix(".")) from None
        if not isinstance(value, dict):
            raise Invalid(f"must be an object; found {shown(value)}")
        parts = []
        for name in self._names:
            if name not in value:
                raise Invalid(f"has no field {shown(name)}")
            part = value[name]
            if not isinstance(part, str):
                raise Invalid(f"must have text in {shown(name)}; found {shown(part)}")
            parts.append(part)
        return tuple(parts)
