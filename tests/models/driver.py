"""The smallest possible host of a module, for tests only: no limits, no checks, direct wasmtime calls."""

import json
from typing import Any

from wasmtime import Engine, Func, FuncType, Instance, Memory, Module, Store, ValType


class Driver:
    """One instance. Operations take and return dicts; `progress` collects the reports of `weei.onProgress`."""

    def __init__(self, engine: Engine, module: Module) -> None:
        self.store = Store(engine)
        self.progress: list[dict[str, Any]] = []
        signature = FuncType([ValType.i32(), ValType.i32()], [])
        callback = Func(self.store, signature, lambda pointer, size: self.progress.append(self._json(pointer, size)))
        self.exports = Instance(self.store, module, [callback]).exports(self.store)
        memory = self.exports["memory"]
        assert isinstance(memory, Memory)
        self.memory = memory

    def call(self, name: str, *arguments: int) -> int:
        """Call an export with unsigned numbers; the result is unsigned too."""
        function = self.exports[name]
        assert isinstance(function, Func)
        signed = [value - (1 << 32) if value >= 1 << 31 else value for value in arguments]
        return int(function(self.store, *signed) or 0) & 0xFFFFFFFF

    def read(self, pointer: int, bytes: int) -> bytearray:
        """The arguments are named as in a module's answer: `read(**answer["weights"])`."""
        content = self.memory.read(self.store, pointer, pointer + bytes)
        assert len(content) == bytes
        return content

    def _json(self, pointer: int, size: int) -> Any:
        return json.loads(self.read(pointer & 0xFFFFFFFF, size))

    def put(self, content: bytes) -> dict[str, int]:
        """Allocate and write; the {pointer, bytes} of a request."""
        pointer = self.call("alloc", len(content))
        assert pointer != 0 and pointer % 16 == 0
        self.memory.write(self.store, content, pointer)
        return {"pointer": pointer, "bytes": len(content)}

    def free(self, buffer: dict[str, int]) -> None:
        self.call("free", buffer["pointer"], buffer["bytes"])

    def text(self, name: str, request: bytes) -> dict[str, Any]:
        """One operation with this request text."""
        buffer = self.put(request)
        pointer = self.call(name, buffer["pointer"], buffer["bytes"])
        result = self._json(pointer, self.call("resultLength"))
        self.free(buffer)
        assert isinstance(result, dict)
        return result

    def run(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        return self.text(name, json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode())

    def load(self, weights: bytes) -> None:
        assert self.run("loadModel", {"weights": self.put(weights)}) == {}
