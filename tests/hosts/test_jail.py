"""The jailed child: what it cannot do, how it ends, and how it is used again and again."""

import os
import select
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.hosts.modules.bombs import empty_functions
from tests.hosts.modules.build import counter, plus_one
from tests.hosts.modules.hostile import BY_NAME
from weei_core.abi.limits import MIB, Limits
from weei_core.errors import ModelError
from weei_core.jail import confine
from weei_core.jail.parent import InputFile, Jail, capabilities, run_in_child

ROOT = Path(__file__).resolve().parent.parent.parent
LIMITS = Limits(memory_bytes=64 * MIB, run_seconds=20, compile_seconds=5)


def train_task(round_number: int = 1) -> dict[str, Any]:
    units = {"seed": "1", "unit_start": 0, "unit_count": 8}
    return {"operation": "train", "work": {"settings": "{}", "round": round_number, "units": units}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plus_one.wasm").write_bytes(plus_one())
    (tmp_path / "counter.wasm").write_bytes(counter())
    (tmp_path / "loops.wasm").write_bytes(BY_NAME["train_loops"].wasm())
    (tmp_path / "weights").write_bytes(bytes(16))
    (tmp_path / "one_weight").write_bytes(bytes(4))
    return tmp_path


def train(jail: Jail, weights: Path, round_number: int = 1, **options: Any) -> tuple[dict[str, Any], bytes]:
    with tempfile.TemporaryFile() as out:
        outcome = jail.run(train_task(round_number), {"weights": InputFile(weights)}, {"weightsOut": out}, **options)
        out.seek(0)
        return outcome, out.read()


def confined(code: str, before: str = "") -> list[str]:
    """Run `code` in a process that has confined itself like a child, after `before`; its standard output."""
    script = f"""
import ctypes, encodings.idna, os, resource, socket, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from weei_core.abi.limits import Limits
from weei_core.jail.confine import confine
server = os.getppid()
{before}
missing = confine(Limits(memory_bytes=64 * 1024 * 1024), 1000)
def outcome(action):
    try:
        return repr(action())
    except (OSError, MemoryError) as error:
        return type(error).__name__
{code}
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True, env={})
    return done.stdout.split("\n")[:-1]


def test_every_confinement_is_active_here():
    """Requirement 7: the check names what is missing, and here nothing is."""
    assert capabilities() == dict.fromkeys(confine.CONFINEMENTS, "active")


def test_a_missing_confinement_is_named():
    kernel: Any = Mock(**dict.fromkeys(("unshare.return_value", "prctl.return_value"), -1))
    assert "network namespaces" in str(confine._leave_network(kernel))
    assert "no_new_privs" in str(confine._install_filter(kernel))


def test_cannot_reach_files_network_or_other_processes():
    """Requirement 7: neither the server's environment, nor its database, nor a new process."""
    lines = confined("""
print(missing)
print(outcome(lambda: open(f"/proc/{server}/environ", "rb").read(1)))
print(outcome(lambda: open("/etc/passwd").read(1)))
print(outcome(lambda: socket.create_connection(("127.0.0.1", 5432), 1)))
print(outcome(lambda: os.kill(server, 0)))
print(outcome(os.fork))
print(outcome(lambda: os.execv("/bin/true", ["true"])))
print(outcome(lambda: os.unlink("/tmp/nothing")))
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, server, 0, 0), libc.unshare(0x10000000))
""")
    assert lines[0] == "{}"
    assert lines[1:8] == ["PermissionError"] * 7
    assert lines[8] == "-1 -1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_is_nobody_without_capabilities():
    lines = confined("print(os.getuid(), os.getgid(), os.getgroups(), outcome(lambda: os.setuid(0)))")
    assert lines == ["65534 65534 [] PermissionError"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else first")
def test_confines_itself_without_being_root():
    """An agent: a user namespace gives the network namespace, and its capabilities are dropped again."""
    lines = confined(
        """
print(missing)
print(outcome(lambda: socket.create_connection(("127.0.0.1", 5432), 1)), outcome(lambda: os.setuid(0)))
""",
        before="os.setresuid(1000, 1000, 1000)",
    )
    assert lines == ["{}", "PermissionError OSError"]


def test_data_limit_counts_module_and_memory():
    """design: 512 MiB + 4 × module + memory limit; no core dump."""
    lines = confined("""
print(resource.getrlimit(resource.RLIMIT_DATA)[0], resource.getrlimit(resource.RLIMIT_CORE)[0])
print(outcome(lambda: len(bytearray(600 * 1024 * 1024))))
""")
    assert lines[0] == f"{576 * MIB + 4000} 0"
    assert lines[1] == "MemoryError"


def test_threads_still_start_when_confined():
    assert confined("""
thread = threading.Thread(target=lambda: print("ran")); thread.start(); thread.join()
""") == ["ran"]


def test_servers_make_themselves_unreadable():
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from weei_core.jail.confine import make_unreadable;"
        "print(make_unreadable()); import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"]


def test_child_and_parent_import_no_more_than_they_need():
    """The child: the standard library and wasmtime. The parent does not even load wasmtime."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import weei_core.jail.%s;"
        "print({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    for module, extra in (("parent", set()), ("child", {"wasmtime"})):
        done = subprocess.run([sys.executable, "-I", "-c", code % module], capture_output=True, text=True, check=True)
        found = {name for name in eval(done.stdout) if not name.startswith(("_", "google", "sitecustomize"))}
        assert found == {"weei_core"} | extra


def test_one_child_runs_many_assignments(folder):
    with Jail(folder / "plus_one.wasm", LIMITS) as jail:
        first = train(jail, folder / "weights")
        assert [train(jail, folder / "weights") for _ in range(5)] == [first] * 5
    assert first[1] == bytes.fromhex("0000803f" * 4)


def test_two_jobs_with_one_module_run_side_by_side(folder):
    """C59: a process each, so that no store is shared between threads."""
    results: list[tuple[dict[str, Any], bytes]] = []

    def work():
        with Jail(folder / "plus_one.wasm", LIMITS) as jail:
            results.extend(train(jail, folder / "weights") for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 100
    assert all(result == results[0] for result in results)


def test_a_trap_does_not_reach_the_next_assignment(folder):
    """C57: ok, trap, ok. The third starts from a fresh instance, so its counter says 1, not 3."""
    with Jail(folder / "counter.wasm", LIMITS) as jail:
        before, _ = train(jail, folder / "one_weight", 1)
        with pytest.raises(ModelError) as trap:
            train(jail, folder / "one_weight", 2)
        after, _ = train(jail, folder / "one_weight", 3)
        assert (trap.value.code, trap.value.operation) == ("trap", "train")
        assert before["result"] == after["result"]
        assert '"examplesProcessed":1}' in str(after["result"])


def test_cancelling_ends_the_child_at_once(folder):
    with Jail(folder / "loops.wasm", Limits(run_seconds=60)) as jail:
        with pytest.raises(ModelError) as stopped:
            train(jail, folder / "weights", cancelled=lambda: True)
        assert stopped.value.code == "cancelled"
        assert not jail.alive
        with pytest.raises(ModelError, match="has ended"):
            train(jail, folder / "weights")


def test_kill_from_another_thread(folder):
    with Jail(folder / "loops.wasm", Limits(run_seconds=60)) as jail:
        killer = threading.Thread(target=jail.kill)

        def called(operation):
            if operation == "train":
                killer.start()

        with pytest.raises(ModelError) as stopped:
            train(jail, folder / "weights", on_call=called)
        killer.join()
        assert stopped.value.code == "cancelled"


def test_children_do_not_outlive_their_parent(folder):
    """A worker that is killed while a module loops leaves nothing behind."""
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from weei_core.abi.limits import Limits
from weei_core.jail.parent import InputFile, Jail
import tempfile
folder = Path({str(folder)!r})
jail = Jail(folder / "loops.wasm", Limits(run_seconds=600))
def called(operation):
    if operation == "train":
        print(jail._process.pid, flush=True)
with tempfile.TemporaryFile() as out:
    jail.run({train_task()!r}, {{"weights": InputFile(folder / "weights")}}, {{"weightsOut": out}}, on_call=called)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        watch = os.pidfd_open(child)
        parent.kill()
    with open(watch, "rb"):
        assert select.select([watch], [], [], 20)[0]


def test_parent_stops_a_child_that_does_not_stop_itself(folder, monkeypatch):
    """The last limit: wall time by the parent's clock. SIGSTOP stands for a child that hangs."""
    monkeypatch.setattr("weei_core.jail.parent._GRACE_SECONDS", 0.2)
    with Jail(folder / "plus_one.wasm", Limits(run_seconds=0.2)) as jail:
        os.kill(jail._process.pid, 19)
        with pytest.raises(ModelError, match="train was stopped after 0.4 seconds") as stopped:
            train(jail, folder / "weights")
        assert stopped.value.code == "time_limit"
        assert not jail.alive


@pytest.mark.parametrize(
    ("signal", "code", "words"),
    [(24, "time_limit", "20 seconds of processor time"), (9, "crash", "SIGKILL"), (6, "crash", "SIGABRT")],
)
def test_names_how_a_child_died(signal, code, words, folder):
    with Jail(folder / "loops.wasm", LIMITS) as jail:

        def strike(operation):
            if operation == "train":
                os.kill(jail._process.pid, signal)

        with pytest.raises(ModelError, match=words) as death:
            train(jail, folder / "weights", on_call=strike)
        assert (death.value.code, death.value.operation) == (code, "train")


@pytest.mark.parametrize(
    "message",
    [b"[]", b'{"type":"party"}', b'{"type":"call","operation":7}', b"\xff"],
)
def test_a_child_that_speaks_nonsense_is_ended(message, folder):
    """A child may have been taken over: what it says is checked like any other input."""
    with Jail(folder / "plus_one.wasm", LIMITS) as jail:
        with pytest.raises(ModelError):
            jail._checked(message, [])
        assert not jail.alive


def test_what_the_child_wrote_is_compared_with_what_it_claims(folder):
    with Jail(folder / "plus_one.wasm", LIMITS) as jail, tempfile.TemporaryFile() as out:
        out.write(b"x" * 99)
        out.flush()
        with pytest.raises(ModelError, match="wrote 99 bytes and claimed 16"):
            jail.run(train_task(), {"weights": InputFile(folder / "weights")}, {"weightsOut": out})


def test_compiled_modules_are_kept_by_hash_and_version(folder):
    cache = folder / "cache"
    with Jail(folder / "plus_one.wasm", LIMITS, cache=cache) as jail:
        assert not jail.from_cache
        first = train(jail, folder / "weights")
    (kept,) = cache.iterdir()
    assert kept.suffix == ".cwasm"
    with Jail(folder / "plus_one.wasm", LIMITS, cache=cache) as jail:
        assert jail.from_cache
        assert train(jail, folder / "weights") == first


def test_a_damaged_compiled_module_is_compiled_again(folder):
    cache = folder / "cache"
    Jail(folder / "plus_one.wasm", LIMITS, cache=cache).close()
    (kept,) = cache.iterdir()
    kept.write_bytes(b"not compiled code")
    for from_cache in (False, False, True):  # refused and removed; compiled and kept; used
        with Jail(folder / "plus_one.wasm", LIMITS, cache=cache) as jail:
            assert jail.from_cache == from_cache


def test_a_module_that_does_not_compile_is_not_kept(folder):
    (folder / "bad.wasm").write_bytes(empty_functions(1))
    with pytest.raises(ModelError):
        Jail(folder / "bad.wasm", LIMITS, cache=folder / "cache")
    assert list((folder / "cache").iterdir()) == []


def test_reads_a_part_of_a_file(folder):
    """A range of a larger file is given to the module as it is."""
    (folder / "large").write_bytes(b"\xff" * 8 + bytes.fromhex("0000803f" * 4) + b"\xff" * 8)
    with tempfile.TemporaryFile() as out:
        run_in_child(
            folder / "plus_one.wasm",
            train_task(),
            {"weights": InputFile(folder / "large", 8, 16)},
            {"weightsOut": out},
            limits=LIMITS,
        )
        out.seek(0)
        assert out.read() == bytes.fromhex("00000040" * 4)


def test_inspects_chunks_in_one_task(folder):
    chunks = [b"a", b"bcd", b"efghij"]
    inputs = {"weights": InputFile(folder / "weights")}
    for index, data in enumerate(chunks):
        (folder / f"chunk{index}").write_bytes(data)
        inputs[f"chunk/{index}"] = InputFile(folder / f"chunk{index}")
    task = {"operation": "inspect", "auxiliary": [], "chunks": [{"format": "bytes"}] * 3}
    with Jail(folder / "plus_one.wasm", LIMITS) as jail:
        assert jail.run(task, inputs) == {"exampleCounts": [1, 3, 6]}


def test_predicts_and_evaluates(folder):
    inputs = {"weights": InputFile(folder / "weights"), "data": InputFile(folder / "weights")}
    work = {"settings": "{}", "data": {"format": "bytes"}}
    with Jail(folder / "plus_one.wasm", LIMITS) as jail:
        outcome = jail.run({"operation": "evaluate", "work": work}, inputs)
        assert outcome["result"] == '{"metrics":{"loss":0.25},"examplesProcessed":16}'
        outcome = jail.run({"operation": "predict", "input": '{"text":"one"}'}, inputs)
        assert outcome["result"] == '{"output":{"text":"one more"}}'
