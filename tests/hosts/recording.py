"""Records what a host asks of a module and what it answers, as the golden transcripts store it."""

from typing import Any

from weei_core.abi.host import ModuleRun, Source
from weei_core.abi.memory import GuestMemory, Region

Entry = dict[str, Any]


class _RecordingMemory(GuestMemory):
    def __init__(self, memory: GuestMemory, entries: list[Entry]) -> None:
        super().__init__(memory._store, memory._memory)
        self._entries = entries

    def write(self, region: Region, source: Source) -> None:
        super().write(region, source)
        self._entries.append({"write": region.pointer, **_shown(super().read(region))})

    def read(self, region: Region) -> bytes:
        data = super().read(region)
        self._entries.append({"read": region.pointer, **_shown(data)})
        return data


def _shown(data: bytes) -> Entry:
    """JSON as text, so that a changed request can be read in a diff; anything else in hexadecimal."""
    return {"text": data.decode()} if data.startswith(b"{") else {"hex": data.hex()}


class RecordingRun(ModuleRun):
    """A run whose calls, writes and reads are listed in `entries`, in order. Numbers are unsigned 32-bit."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.entries: list[Entry] = []
        super().__init__(*arguments, **options)
        self._memory = _RecordingMemory(self._guest(), self.entries)

    def weights(self, region: Region | None) -> bytes:
        """The weights that the last operation returned."""
        assert region is not None
        return self._guest().read(region)

    def _invoke(self, export: str, operation: str, *arguments: int) -> int:
        result = super()._invoke(export, operation, *arguments)
        entry: Entry = {"call": export, "arguments": list(arguments)}
        if export != "free":
            entry["result"] = result
        self.entries.append(entry)
        return result
