"""`python install.py FILE`: pip install -r FILE, with one line that says how far it is, and one sentence if it fails.

Runs before anything is installed, so it imports nothing but the standard library.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

STEPS = re.compile(r"\s*(Collecting|Downloading|Using cached|Installing collected packages|Building wheel)\b:?\s*(\S*)")
CAUSES = (
    ("No space left on device", "The disk is full. Free some space and try again."),
    ("Disk quota exceeded", "The disk is full. Free some space and try again."),
    ("connection", "The package index cannot be reached. Check the network (or pip's settings) and try again."),
    ("resolution", "The package index cannot be reached. Check the network (or pip's settings) and try again."),
    ("timed out", "The package index cannot be reached. Check the network (or pip's settings) and try again."),
    ("No matching distribution", "A package is not made for this machine or this Python; see the lines above."),
)


def main(requirements: str) -> int:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    with subprocess.Popen(
        [*command, "-r", requirements], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        lines = follow(pip.stdout)
    if pip.returncode == 0:
        show("")
        return 0
    show("")
    print("\n".join(lines[-5:]), file=sys.stderr)
    print(reason("\n".join(lines)), file=sys.stderr)
    return 1


def follow(output: Iterable[str]) -> list[str]:
    """Show each step of pip's; all its lines."""
    lines, packages = [], 0
    for line in output:
        lines.append(line.rstrip())
        if step := STEPS.match(line):
            packages += step[1] == "Collecting"
            unpacking = step[1].startswith("Installing")
            show(f"  unpacking {packages} packages …" if unpacking else f"  package {packages}: {line.strip()}")
    return lines


def show(text: str) -> None:
    """On a terminal one line that changes; in a log the line of unpacking only."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text[:76]}", end="", flush=True)
    elif "unpacking" in text:
        print(text, flush=True)


def reason(output: str) -> str:
    for sign, sentence in CAUSES:
        if sign.casefold() in output.casefold():
            return sentence
    return "pip could not install what Weei needs; see the lines above."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
