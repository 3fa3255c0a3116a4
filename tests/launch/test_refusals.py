"""What keeps a run from starting is said in one sentence, by the program that people start."""

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections import namedtuple

import pytest

from tests.launch.program import Place, Program, wait
from weei_site.launch import machine
from weei_site.launch.machine import CannotStart

Usage = namedtuple("Usage", "total used free")
GIB = 1024**3


@pytest.fixture
def place():
    place = Place()
    yield place
    place.remove()


def refused(place, *arguments):
    with Program(place, *arguments) as program:
        assert program.wait() == 1
        return program.text


def test_a_taken_port(place):
    with socket.socket() as other:
        other.bind(("127.0.0.1", place.port))
        other.listen()
        text = refused(place, "--demo")
    found = re.fullmatch(
        rf"Port {place.port} is taken by another program\. Stop it, or choose another: make demo PORT=(\d+)", text
    )
    assert found and int(found[1]) > place.port
    machine.check_port(int(found[1]), "make demo")


@pytest.mark.parametrize("port", ["http", "0", "65536", "-1", "80.5"])
def test_a_port_that_is_none(port):
    with pytest.raises(CannotStart, match=rf"^PORT must be a number from 1 to 65535; found '{port}'\.$"):
        machine.chosen_port(port)


def test_no_port_means_8000():
    assert machine.chosen_port(None) == machine.chosen_port("") == 8000
    assert machine.chosen_port("9000") == 9000


def test_a_web_server_that_does_not_come_up(place):
    place.environment["LISTEN"] = "192.0.2.77"  # An address that no machine has.
    text = refused(place)
    assert text.splitlines()[-1] == f"The web server did not start; see {place.folder}/var/log/web.log"
    assert "address" in (place.folder / "var/log/web.log").read_text()
    assert place.processes() == []


def test_a_folder_of_sockets_that_is_somebody_elses(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CannotStart, match="is a folder that others can write to"):
        machine.private_folder(folder)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(CannotStart, match="is a folder that others can write to"):
        machine.private_folder(link)
    with pytest.raises(CannotStart, match="RUN_DIR may have 80 bytes"):
        machine.private_folder(tmp_path / ("x" * 81))


# --- a full disk ---


@contextlib.contextmanager
def disk(folder, mebibytes):
    """A small file system, where this user may mount one; else None, and the tests take a stand-in."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "weei-test", str(folder)]
    mounted = os.geteuid() == 0 and bool(shutil.which("mount")) and subprocess.run(command, check=False).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with disk(tmp_path / "disk", 1) as folder:
        yield folder


@pytest.fixture
def usable_disk(tmp_path):
    with disk(tmp_path / "disk", 400) as folder:
        yield folder


def fill(folder):
    with pytest.raises(OSError, match="No space"), (folder / "filler").open("wb") as file:
        while True:
            file.write(bytes(1024**2))


def test_a_disk_that_fills_up_during_a_run_does_not_end_it(place, usable_disk, monkeypatch):
    """It is told once, the process manager's own troubles with it are not, and the run goes on when there is space."""
    if usable_disk is None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10 * GIB, 10 * GIB, 1024**2))
        assert machine.disk_is_full(place.folder)
        return
    place.environment["VAR_DIR"] = str(usable_disk / "var")
    with Program(place) as program:
        program.wait_for("^Ctrl-C stops everything")
        fill(usable_disk)
        program.wait_for("^The disk of .* is full: nothing new can be kept until you free some space")
        os.kill(place.info("fast")["pid"], signal.SIGKILL)  # Supervisor cannot write to its log about it.
        wait(lambda: place.states()["fast"] != "RUNNING", "the worker to be missed")
        (usable_disk / "filler").unlink()
        program.wait_for("^There is space on the disk again")
        wait(lambda: place.states()["fast"] == "RUNNING", "the worker to run again")
        assert program.end(signal.SIGTERM) == 0
        assert "Traceback" not in program.text and program.text.count(" is full") == 1


def test_a_disk_that_is_too_full_to_begin(place, small_disk, monkeypatch):
    if small_disk is not None:
        place.environment["VAR_DIR"] = str(small_disk)
        text = refused(place, "--demo")
    else:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10 * GIB, 10 * GIB, 1024**2))
        with pytest.raises(CannotStart) as caught:
            machine.check_disk(place.folder, 0.0)
        text = str(caught.value)
    assert re.fullmatch(
        r"The disk of \S+ has \d MiB free; Weei needs 300 MiB\. "
        r"Free some, or choose another folder with VAR_DIR\.",
        text,
    )


def test_a_disk_without_room_for_the_first_file(place, small_disk, monkeypatch, capsys):
    """Before anything is checked, the settings keep a secret there."""
    if small_disk is not None:
        fill(small_disk)
        place.environment["VAR_DIR"] = str(small_disk)
        text = refused(place, "--demo")
    else:
        from weei_site.launch import __main__ as program

        monkeypatch.setattr(program, "launch", no_space)
        monkeypatch.setattr("sys.argv", ["launch"])
        assert program.main() == 1
        text = capsys.readouterr().err.strip()
    assert text == "The disk is full. Free some space, or choose another folder with VAR_DIR."


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_the_server_would_take_no_uploads_on(monkeypatch):
    """The server always leaves a part of the disk free; a demo below it would wait for ever."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 * GIB, 96 * GIB, 4 * GIB))
    with pytest.raises(CannotStart, match=r"has 4096 MiB free; Weei needs 5152 MiB \(5% of it stay free: MIN_FREE_FR"):
        machine.check_disk("/data", 0.05)
    machine.check_disk("/data", 0.01)


def test_a_full_disk_is_known_by_its_error_however_wrapped():
    for cause in (OSError(errno.ENOSPC, "x"), sqlite3.OperationalError("database or disk is full")):
        try:
            try:
                raise cause
            except Exception as error:
                raise RuntimeError("could not be written") from error
        except RuntimeError as wrapped:
            assert machine.says_disk_is_full(wrapped)
    assert not machine.says_disk_is_full(OSError(errno.EACCES, "x"))


def test_the_servers_own_address_is_one_that_it_answers_to():
    urls = ["http://192.0.2.5:8000", "http://localhost:8000", "http://127.0.0.1:8000"]
    assert machine.local_url(urls) == "http://localhost:8000"
    assert machine.local_url(["https://weei.example"]) == "https://weei.example"


def test_the_networks_address_comes_first(monkeypatch):
    monkeypatch.setattr(machine, "lan_address", lambda: "192.0.2.5")
    assert machine.public_urls(81) == ["http://192.0.2.5:81", "http://localhost:81", "http://127.0.0.1:81"]
    monkeypatch.setattr(machine, "lan_address", lambda: None)
    assert machine.public_urls(81) == ["http://localhost:81", "http://127.0.0.1:81"]
