"""The part of `make demo` before Python can help: which Python there is, and what pip says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weei_site.launch import install

ROOT = Path(__file__).resolve().parent.parent.parent


def make(tmp_path, python):
    """`make install` with an environment of its own, which must not be there afterwards."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", "install", f"VENV={tmp_path / 'venv'}", f"PYTHON={python}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, "make itself answers 2 when a recipe fails"
    assert not (tmp_path / "venv").exists()
    return done.stdout.strip()


def script(tmp_path, text):
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_old_python_is_named_with_the_version_that_is_needed(tmp_path):
    old = script(tmp_path, 'if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi')
    expected = f"Weei needs Python 3.11 or later; '{old}' is Python 3.9.2. Try: make install PYTHON=python3.11"
    assert make(tmp_path, old) == expected


def test_no_python_at_all(tmp_path):
    missing = tmp_path / "nothing"
    expected = f"Weei needs Python 3.11 or later; '{missing}' is missing. Try: make install PYTHON=python3.11"
    assert make(tmp_path, missing) == expected


def test_a_python_without_venv(tmp_path):
    """Debian's, before python3-venv is installed."""
    bare = script(tmp_path, f'case "$*" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac')
    assert make(tmp_path, bare) == (
        "This Python cannot make virtual environments. On Debian and Ubuntu: sudo apt-get install python3-venv"
    )


def test_an_environment_that_was_half_made_is_removed(tmp_path):
    """A full disk ends `venv` in the middle; the next run must not take what is there for whole."""
    venv = tmp_path / "venv"
    half = script(tmp_path, f'case "$*" in "-m venv"*) mkdir -p {venv}/bin; touch {venv}/bin/pip; exit 1;; esac')
    assert make(tmp_path, half) == f"The virtual environment {venv} could not be made. Is there space on the disk?"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"),
        ("WARNING: Retrying after connection broken by 'NewConnectionError'", "The package index cannot be reached"),
        ("  Temporary failure in name resolution", "The package index cannot be reached"),
        ("ERROR: No matching distribution found for wasmtime==50.0.1", "A package is not made for this machine"),
        ("ERROR: something else", "pip could not install what Weei needs; see the lines above."),
    ],
)
def test_a_failed_installation_is_one_sentence(line, sentence):
    assert install.reason(line).startswith(sentence)


def test_an_installation_that_fails_says_so_and_ends_with_an_error(tmp_path, capfd):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"--no-index\n--find-links {tmp_path}\nweei-has-no-such-package==1\n")
    assert install.main(str(requirements)) == 1
    error = capfd.readouterr().err
    assert error.strip().splitlines()[-1].startswith("A package is not made for this machine or this Python")


def test_an_installation_that_works_says_nothing_more(tmp_path, capfd):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("pytest\n")
    assert install.main(str(requirements)) == 0
    assert capfd.readouterr().err == ""


def test_the_steps_of_pip_are_followed(monkeypatch):
    shown = []
    monkeypatch.setattr(install, "show", shown.append)
    output = [
        "Collecting a==1\n",
        "  Downloading a.whl (1 MB)\n",
        "Collecting b\n",
        "Installing collected packages: b, a\n",
    ]
    assert install.follow(output) == [line.rstrip() for line in output]
    assert shown[-1] == "  unpacking 2 packages …"
    assert shown[0] == "  package 1: Collecting a==1"
