"""Writes `binaries/`: every small module assembled, and what hosts must say of it, for hosts without an assembler.

Run `python -m tests.hosts.modules.build` after a change; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path

import wasmtime

from tests.hosts.modules.hostile import CASES

HERE = Path(__file__).resolve().parent
BINARIES = HERE / "binaries"


def files() -> dict[str, bytes]:
    table = [{"name": c.name, "covers": c.covers, "code": c.code, "operation": c.operation} for c in CASES]
    made = {f"{case.name}.wasm": case.wasm() for case in CASES}
    made["plus_one.wasm"] = plus_one()
    made["counter.wasm"] = counter()
    made["hostile.json"] = (json.dumps(table, indent=1) + "\n").encode()
    return made


def plus_one() -> bytes:
    return bytes(wasmtime.wat2wasm((HERE / "plus_one.wat").read_text()))


def counter() -> bytes:
    return bytes(wasmtime.wat2wasm((HERE / "counter.wat").read_text()))


if __name__ == "__main__":
    BINARIES.mkdir(exist_ok=True)
    for name, data in files().items():
        (BINARIES / name).write_bytes(data)
