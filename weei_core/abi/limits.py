"""What one module may use. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024

MAX_RESULT_BYTES = MIB
MAX_MODEL_INFO_BYTES = 256 * 1024
MAX_REPORT_BYTES = 16 * 1024
MAX_REASON_CHARACTERS = 500
MAX_TABLE_ELEMENTS = 100_000
"""Enough for every indirect call of a large C module; a table costs 8 bytes an element."""

MAX_MODULE_BYTES = 256 * MIB


@dataclass(frozen=True)
class Limits:
    """`memory_bytes`: linear memory. `run_seconds`: wall time of one task, all its calls together.

    `compile_seconds`: processor time of compilation, all threads together; its wall time may be twice that.
    `progress_seconds`: the shortest time between two reports that are looked at; those in between are dropped.
    """

    memory_bytes: int = 2048 * MIB
    run_seconds: float = 600
    compile_seconds: float = 30
    progress_seconds: float = 0.1

    def data_bytes(self, module_bytes: int) -> int:
        """RLIMIT_DATA of a child: the interpreter, the compiler's working memory, and the module's own memory."""
        return 512 * MIB + 4 * module_bytes + self.memory_bytes
