"""The jailed child: compiles one module and runs tasks on it until its parent hangs up.

Imports the standard library and wasmtime only, and all of it before it confines itself: afterwards no file can be
opened. Started by `weei_core.jail.parent`, never by hand.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import traceback
from typing import Any

import wasmtime

from weei_core.abi.codes import refusal
from weei_core.abi.limits import Limits
from weei_core.abi.memory import FileSlice
from weei_core.abi.module import check_interface, compile_module, make_engine
from weei_core.abi.tasks import TaskRunner
from weei_core.errors import ModelError
from weei_core.jail.confine import allow_processor_seconds, confine
from weei_core.jail.wire import Channel, Closed

_POLL_HANG_UP = 0x2000  # POLLRDHUP, which Python's select module does not name


def main(fd: int) -> None:
    """Serve the parent at the other end of descriptor `fd`."""
    channel = Channel(socket.socket(fileno=fd))
    try:
        first, files = _receive(channel)
        engine = make_engine()
        limits = Limits(**first["limits"])
        missing = confine(limits, first["moduleBytes"])
        threading.Thread(target=_end_with_parent, args=(fd,), daemon=True).start()
        channel.send({"type": "ready", "missing": missing})
        if files:
            _serve(channel, engine, limits, first, files)
    except Closed:
        return


def _end_with_parent(fd: int) -> None:
    """A parent that is killed leaves no module running; a death signal would follow its thread, not the parent."""
    poll = select.poll()
    poll.register(fd, _POLL_HANG_UP)
    poll.poll()
    os._exit(0)


def _receive(channel: Channel) -> tuple[dict[str, Any], list[int]]:
    received = channel.receive()
    assert received is not None
    return json.loads(received[0]), received[1]


def _serve(channel: Channel, engine: wasmtime.Engine, limits: Limits, first: dict[str, Any], files: list[int]) -> None:
    module = None
    with _Answers(channel):
        allow_processor_seconds(limits.compile_seconds)
        module, kind = _load(engine, first, files)
        channel.send({"type": "loaded", "from": kind})
    for fd in files:
        os.close(fd)
    if module is None:
        return
    runner = TaskRunner(
        engine,
        module,
        limits,
        on_progress=lambda report: channel.send({"type": "progress", "report": report}),
        on_call=lambda operation: channel.send({"type": "call", "operation": operation}),
    )
    while True:
        message, files = _receive(channel)
        with _Answers(channel):
            allow_processor_seconds(limits.run_seconds)
            inputs = {name: FileSlice(files[index], *place) for name, (index, *place) in message["inputs"].items()}
            outputs = {name: files[index] for name, index in message["outputs"].items()}
            channel.send({"type": "done", "outcome": runner.run(message["task"], inputs, outputs)})
        for fd in files:
            os.close(fd)


def _load(engine: wasmtime.Engine, first: dict[str, Any], files: list[int]) -> tuple[wasmtime.Module, str]:
    """From the compiled copy when there is one that this processor and wasmtime accept, else by compiling."""
    if first["compiledBytes"]:
        try:
            module = wasmtime.Module.deserialize(engine, os.pread(files[1], first["compiledBytes"], 0))
        except wasmtime.WasmtimeError:
            return compile_module(engine, os.pread(files[0], first["moduleBytes"], 0)), "compiler"
        check_interface(module)
        return module, "cache"
    module = compile_module(engine, os.pread(files[0], first["moduleBytes"], 0))
    if len(files) > 1:
        _write(files[1], module.serialize())
    return module, "compiler"


def _write(fd: int, data: bytearray) -> None:
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], done)


class _Answers:
    """Turns what goes wrong in its block into one message; only a lost parent gets through."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None or isinstance(error, Closed):
            return False
        if isinstance(error, MemoryError):
            error = refusal("memory_limit", "The module needs more memory than allowed.")
        if not isinstance(error, ModelError):
            traceback.print_exception(error)
            error = refusal("crash", f"The host of the module failed: {type(error).__name__}: {error}.")
        self._channel.send(
            {
                "type": "refused",
                "code": error.code,
                "message": error.message,
                "operation": error.operation,
                "field": error.field,
            }
        )
        return True


if __name__ == "__main__":
    main(int(sys.argv[1]))
