"""The parts that the small test modules are put together from: an honest model, and ways to replace its parts."""

from __future__ import annotations

from dataclasses import dataclass, field

import wasmtime

WEIGHTS = bytes.fromhex("0000803f000000c00000003f00000000")  # 1, -2, 0.5, 0
LIMIT_PAGES = 1024
"""Hosts that bound memory run these with 64 MiB."""


def escaped(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


def operation(name: str, body: str) -> str:
    return f'(func (export "{name}") (param $at i32) (param $bytes i32) (result i32) {body})'


def answer(text: bytes, address: int) -> tuple[str, str]:
    data = f'(data (i32.const {address}) "{escaped(text)}")'
    return data, f"(call $say (i32.const {address}) (i32.const {len(text)}))"


INFO_DATA, INFO = answer(b'{"id":"hostile"}', 64)
_EMPTY_DATA, EMPTY = answer(b"{}", 96)
_WEIGHTS_DATA, _NEW = answer(b'{"pointer":1024,"bytes":16}', 128)
_TRAINED_DATA, TRAINED = answer(
    b'{"weights":{"pointer":1024,"bytes":16},"metrics":{},"examplesProcessed":8,"uniqueExamples":8}', 192
)

PARTS = {
    "imports": "",
    "memory": '(memory (export "memory") 1 65536)',
    "data": "\n".join(
        (INFO_DATA, _EMPTY_DATA, _WEIGHTS_DATA, _TRAINED_DATA, f'(data (i32.const 1024) "{escaped(WEIGHTS)}")')
    ),
    "extra": "",
    "alloc": """(func (export "alloc") (param $bytes i32) (result i32)
      (local $at i32) (local.set $at (global.get $top))
      (global.set $top (i32.and (i32.const -16)
        (i32.add (i32.const 15) (i32.add (local.get $at) (local.get $bytes)))))
      (local.get $at))""",
    "free": '(func (export "free") (param i32 i32))',
    "resultLength": '(func (export "resultLength") (result i32) (global.get $length))',
    "getModelInfo": operation("getModelInfo", INFO),
    "createInitialWeights": operation("createInitialWeights", _NEW),
    "loadModel": operation("loadModel", EMPTY),
    "train": operation("train", TRAINED),
}
_COMMON = """(global $top (mut i32) (i32.const 8192)) (global $length (mut i32) (i32.const 0))
  (func $say (param $at i32) (param $bytes i32) (result i32)
    (global.set $length (local.get $bytes)) (local.get $at))"""

PROGRESS = '(import "weei" "onProgress" (func $on_progress (param i32 i32)))'
LOOP = "(loop $forever (br $forever)) (unreachable)"
GROW = "(loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16)))))"


@dataclass(frozen=True)
class Case:
    """`code` and `operation` are what the error must say (None: found before any of it runs); `parts` replace parts."""

    name: str
    covers: str
    code: str | None
    operation: str | None = None
    parts: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        parts = PARTS | self.parts
        imports, rest = parts.pop("imports"), "\n  ".join(part for part in parts.values() if part)
        return f"(module\n  {imports}\n  {_COMMON}\n  {rest})\n"

    def wasm(self) -> bytes:
        return bytes(wasmtime.wat2wasm(self.text()))


def does(name: str, body: str, **parts: str) -> dict[str, str]:
    return {name: operation(name, body), **parts}


def says(name: str, text: bytes, before: str = "") -> dict[str, str]:
    data, body = answer(text, 2048)
    return {"extra": data, name: operation(name, before + body)}


def reports(*texts: bytes, calls: str = "") -> dict[str, str]:
    """`train` reports each of `texts` in turn, then makes the calls in `calls`."""
    data, body, address = [], "", 2048
    for text in texts:
        data.append(f'(data (i32.const {address}) "{escaped(text)}")')
        body += f"(call $on_progress (i32.const {address}) (i32.const {len(text)}))"
        address += 256
    return {"imports": PROGRESS, "extra": " ".join(data), **does("train", body + calls + TRAINED)}


def alloc(body: str) -> dict[str, str]:
    return {"alloc": f'(func (export "alloc") (param $bytes i32) (result i32) {body})'}


def length(body: str) -> dict[str, str]:
    return {"resultLength": f'(func (export "resultLength") (result i32) {body})'}


def start(body: str) -> dict[str, str]:
    return {"extra": f"(func $begin {body}) (start $begin)"}


def trained(weights: bytes) -> bytes:
    return b'{"weights":' + weights + b',"metrics":{},"examplesProcessed":8,"uniqueExamples":8}'
