"""The parent's side of the jail: start a confined child, give it files and tasks, believe nothing it says.

A server's workers and the agent use the same child. Standard library only; wasmtime is never imported here.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from weei_core import strict_json
from weei_core.abi.codes import CODES, refusal
from weei_core.abi.limits import MAX_MODULE_BYTES, Limits
from weei_core.abi.progress import OnProgress, ProgressFilter
from weei_core.errors import Invalid, ModelError
from weei_core.jail.confine import CONFINEMENTS
from weei_core.jail.wire import MAX_FILES, Channel, Closed
from weei_core.strict_json import JsonValue

_ROOT = str(Path(__file__).resolve().parent.parent.parent)
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from weei_core.jail.child import main; main(int(sys.argv[2]))"
_COMPILE = "compile"
_START_SECONDS = 30
_GRACE_SECONDS = 5
"""What a child gets beyond a module's own limit: to stop by itself, with a better reason than being killed."""

_POLL_SECONDS = 0.2
_MAX_STDERR_BYTES = 16 * 1024
_MAX_COMPILED_BYTES = 2 * 1024**3

_OUT_OF_MEMORY = ("memory allocation of", "MemoryError", "out of memory", "Cannot allocate memory")
"""What Rust, Python and libc say on stderr when an allocation fails."""

Message = dict[str, JsonValue]


@dataclass(frozen=True)
class InputFile:
    """A file that the child reads: `bytes` of it from `offset`, to the end when None."""

    path: Path
    offset: int = 0
    bytes: int | None = None


@dataclass(frozen=True)
class Usage:
    """Of a child that has ended: the largest resident set and the processor time, all threads together.

    Linux counts the parent's resident set at the time of the spawn into the first, so it is an upper bound.
    """

    resident_bytes: int
    processor_seconds: float


class Jail:
    """One confined child that holds one compiled module and runs any number of tasks, each on a fresh instance.

    A context manager. `run` is called from one thread at a time; `kill` from any. A refusal by the module, a limit or
    a crash is a `ModelError` whose code is one of `weei_core.abi.codes.CODES`. After time_limit by the parent's clock,
    crash, memory_limit of the process or `kill` the child is gone (`alive` is False) and a new one is needed.

    `cache` is a folder for compiled modules, trusted as far as the child is: only children load from it.
    """

    def __init__(self, module: Path, limits: Limits | None = None, *, cache: Path | None = None) -> None:
        self.limits = limits or Limits()
        self.usage: Usage | None = None
        self.missing: Message = {}
        self.from_cache = False
        self._module = module
        self._operation = _COMPILE
        self._killed = False
        self._stderr = ""
        self._lock = threading.Lock()
        size = module.stat().st_size
        if size > MAX_MODULE_BYTES:
            message = f"The module has {size} bytes; at most {MAX_MODULE_BYTES} are allowed."
            raise refusal("memory_limit", message, operation=_COMPILE)
        self._process, self._channel = _spawn()
        try:
            self._load(size, cache)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Jail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self.usage is None

    def run(
        self,
        task: Mapping[str, Any],
        inputs: Mapping[str, InputFile],
        outputs: Mapping[str, BinaryIO] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_call: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Message:
        """Run one task of `weei_core.abi.tasks`. `cancelled` is asked several times a second.

        `outputs` are open files, empty, for reading and writing ("w+b"); what the child claims to have written is
        compared with them.
        """
        self._operation = str(task["operation"])
        with contextlib.ExitStack() as stack:
            files: list[int] = []
            places = {name: _open_input(stack, files, file) for name, file in inputs.items()}
            targets = {}
            for name, target in (outputs or {}).items():
                targets[name] = len(files)
                files.append(target.fileno())
            if len(files) > MAX_FILES:
                raise ValueError(f"one task takes at most {MAX_FILES} files, not {len(files)}")
            self._send({"task": dict(task), "inputs": places, "outputs": targets}, files)
        progress = ProgressFilter()
        for message in self._messages(self.limits.run_seconds + _GRACE_SECONDS, cancelled):
            if message["type"] == "done":
                outcome = strict_json.as_object(message["outcome"], "outcome")
                _check_written(outcome, outputs or {})
                return outcome
            report = message.get("report")
            if message["type"] == "progress" and on_progress and isinstance(report, dict):
                accepted = progress.accept(report)
                if accepted:
                    on_progress(accepted)
            if message["type"] == "call" and on_call:
                on_call(self._operation)
        raise AssertionError("the messages of a child end by an exception")

    def kill(self) -> None:
        """End the child at once. A `run` in another thread raises `ModelError` with code cancelled."""
        self._killed = True
        self._end()

    def close(self) -> None:
        """End the child and keep its `usage`. May be called again."""
        if self.usage is None:
            self._reap()

    def _load(self, size: int, cache: Path | None) -> None:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(self._module.open("rb")).fileno()]
            cached = None if cache is None else cache / _cache_name(self._module)
            compiled_bytes = 0
            fresh = None
            if cached and cached.is_file():
                compiled = stack.enter_context(cached.open("rb"))
                compiled_bytes = os.fstat(compiled.fileno()).st_size
                files.append(compiled.fileno())
            elif cache:
                cache.mkdir(parents=True, exist_ok=True)
                fresh = stack.enter_context(tempfile.TemporaryFile(dir=cache))
                files.append(fresh.fileno())
            head = {"limits": asdict(self.limits), "moduleBytes": size, "compiledBytes": compiled_bytes}
            self._send(head, files)
            for message in self._messages(_START_SECONDS + 2 * self.limits.compile_seconds, lambda: False):
                if message["type"] == "ready":
                    self.missing = strict_json.as_object(message["missing"], "missing")
                if message["type"] == "loaded":
                    self.from_cache = message["from"] == "cache"
                    break
            if cached and fresh:
                _keep(fresh, cached)
            elif cached and not self.from_cache:
                cached.unlink(missing_ok=True)

    def _send(self, message: dict[str, Any], files: list[int]) -> None:
        if not self.alive:
            raise refusal("crash", "The process that ran the module has ended.", operation=self._operation)
        try:
            self._channel.send(message, files)
        except Closed:
            raise self._death() from None

    def _messages(self, seconds: float, cancelled: Callable[[], bool]) -> Iterator[Message]:
        """What the child says, checked. Ends only by an exception; "call" has been noted when it is yielded."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                received = self._channel.receive(_POLL_SECONDS)
            except Closed:
                raise self._death() from None
            if cancelled():
                self.kill()
                raise self._death()
            if time.monotonic() > deadline:
                raise self._death(f"{self._operation} was stopped after {seconds:g} seconds of wall time.")
            if received is None:
                continue
            message = self._checked(*received)
            if message["type"] == "refused":
                raise _refused(message, self._operation)
            yield message

    def _checked(self, data: bytes, files: list[int]) -> Message:
        """A child sends objects with a known type, and no files. Anything else is not our child any more."""
        for fd in files:
            os.close(fd)
        try:
            message = strict_json.as_object(strict_json.loads(data, what="message"), "message")
            kinds = ("ready", "loaded", "progress", "call", "done", "refused")
            if strict_json.as_choice(message.get("type"), "type", kinds) == "call":
                self._operation = strict_json.as_text(message.get("operation"), "operation", 64)
        except Invalid:
            raise self._death() from None
        return message

    def _death(self, stopped: str | None = None) -> ModelError:
        """Why the child is gone, as an error that names the operation and the limit."""
        self._reap()
        status, operation = self._process.returncode, self._operation
        if self._killed:
            return refusal("cancelled", f"{operation} was cancelled.", operation=operation)
        if stopped:
            return refusal("time_limit", stopped, operation=operation)
        if status == -signal.SIGXCPU:
            seconds = self.limits.compile_seconds if operation == _COMPILE else self.limits.run_seconds
            message = f"{operation} used more than the {seconds:g} seconds of processor time allowed."
            return refusal("time_limit", message, operation=operation)
        if any(words in self._stderr for words in _OUT_OF_MEMORY):
            allowed = self.limits.data_bytes(self._module.stat().st_size) // 1024**2
            message = f"{operation} needed more than the {allowed} MiB of memory allowed."
            return refusal("memory_limit", message, operation=operation)
        reason = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return refusal("crash", f"The process that ran {operation} died of {reason}.", operation=operation)

    def _reap(self) -> None:
        """End the child, if it has not ended itself, and take its last words and its use of resources."""
        if self.usage is not None:
            return
        self._end()
        if self._process.stderr:
            with self._process.stderr as stderr:
                self._stderr = str(stderr.read(_MAX_STDERR_BYTES), "utf-8", "replace")
        self._channel.close()
        with self._lock:
            _, status, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.usage = Usage(usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)

    def _end(self) -> None:
        # Not Popen.kill: it would collect a child that is dead already, and with it the use of resources.
        with self._lock:
            if self.usage is None:
                os.kill(self._process.pid, signal.SIGKILL)


def _spawn() -> tuple[subprocess.Popen[bytes], Channel]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, _ROOT, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env={},
            cwd="/",
            start_new_session=True,
        )
    return process, Channel(ours)


def _open_input(stack: contextlib.ExitStack, files: list[int], file: InputFile) -> tuple[int, int, int]:
    handle = stack.enter_context(file.path.open("rb"))
    rest = os.fstat(handle.fileno()).st_size - file.offset
    files.append(handle.fileno())
    return len(files) - 1, file.offset, rest if file.bytes is None else file.bytes


def _check_written(outcome: Message, outputs: Mapping[str, BinaryIO]) -> None:
    for target in outputs.values():
        written, claimed = os.fstat(target.fileno()).st_size, outcome.get("weightsBytes")
        if written != claimed:
            raise refusal("crash", f"The module's host wrote {written} bytes and claimed {strict_json.shown(claimed)}.")


def _refused(message: Message, operation: str) -> ModelError:
    code, text, named, field = (message.get(key) for key in ("code", "message", "operation", "field"))
    return refusal(
        str(code) if code in CODES else "crash",
        str(text)[:1000],
        operation=str(named)[:64] if named else operation,
        field=str(field)[:200] if field else None,
    )


def _cache_name(module: Path) -> str:
    with module.open("rb") as file:
        sha = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{sha}-{importlib.metadata.version('wasmtime')}-{platform.machine()}.cwasm"


def _keep(fresh: BinaryIO, cached: Path) -> None:
    """Copy what the child wrote, so that a child never holds a descriptor of a file in the cache, and name it last."""
    size = os.fstat(fresh.fileno()).st_size
    if size == 0 or size > _MAX_COMPILED_BYTES:
        return
    with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as copy:
        fresh.seek(0)
        while block := fresh.read(1024 * 1024):
            copy.write(block)
    os.replace(copy.name, cached)


def run_in_child(
    module: Path,
    task: Mapping[str, Any],
    inputs: Mapping[str, InputFile],
    outputs: Mapping[str, BinaryIO] | None = None,
    *,
    limits: Limits | None = None,
    cache: Path | None = None,
    on_progress: OnProgress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Message:
    """One task in a child of its own. See `Jail`."""
    with Jail(module, limits, cache=cache) as jail:
        return jail.run(task, inputs, outputs, on_progress=on_progress, cancelled=cancelled)


def capabilities() -> dict[str, str]:
    """What confines a child on this machine: "active", or why not, for each of `confine.CONFINEMENTS`.

    Starts a child without a module, so that the answer is what a real one gets.
    """
    process, channel = _spawn()
    with process:
        try:
            channel.send({"limits": asdict(Limits()), "moduleBytes": 0, "compiledBytes": 0})
            received = channel.receive(_START_SECONDS)
            missing = json.loads(received[0])["missing"] if received else dict.fromkeys(CONFINEMENTS, "no child starts")
        except Closed:
            missing = dict.fromkeys(CONFINEMENTS, "no child starts")
        finally:
            channel.close()
            process.kill()
    return {name: missing.get(name, "active") for name in CONFINEMENTS}
