"""The command line, as docs/agent.md describes it."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_state_path

from weei_agent import __version__


@dataclass(frozen=True)
class Options:
    link: str
    name: str
    workers: int
    memory_mib: int
    cache_mib: int
    max_rounds: int | None
    max_minutes: float | None
    rest: float
    give_up_minutes: float
    state_dir: Path
    new_peer: bool
    leave: bool
    yes: bool
    json: bool
    quiet: bool


def parse_options(arguments: Sequence[str] | None) -> Options:
    """Exits with status 2 and a sentence when the arguments do not fit."""
    return Options(**vars(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weei-agent",
        description="Takes part in a Weei training job: shows the invitation behind LINK, asks, and trains.",
    )
    add = parser.add_argument
    add("link", metavar="LINK", help="the invitation link")
    add("--version", action="version", version=f"%(prog)s {__version__}")
    who = parser.add_argument_group("who this agent is")
    who.add_argument("--name", default="default", help="which identity to use; each is one participant")
    who.add_argument("--new-peer", action="store_true", help="forget the stored identity and join as somebody new")
    who.add_argument("--state-dir", type=Path, default=user_state_path("weei-agent"), help="default: %(default)s")
    bounds = parser.add_argument_group("what it may use")
    bounds.add_argument("--workers", type=_whole, default=os.cpu_count() or 1, help="default: all %(default)s cores")
    bounds.add_argument("--memory-mib", type=_whole, default=2048, help="for each model; default: %(default)s")
    bounds.add_argument("--cache-mib", type=_whole, default=2048, help="for downloaded files; default: %(default)s")
    bounds.add_argument("--max-rounds", type=_whole, help="stop after so many updates")
    bounds.add_argument("--once", dest="max_rounds", action="store_const", const=1, help="the same as --max-rounds 1")
    bounds.add_argument("--max-minutes", type=_minutes, help="stop after so many minutes")
    bounds.add_argument(
        "--rest", type=_seconds, default=0.0, metavar="SECONDS", help="after each update; default: %(default)g"
    )
    bounds.add_argument(
        "--give-up-minutes", type=_minutes, default=60.0, help="of a silent server; default: %(default)g"
    )
    talk = parser.add_argument_group("how it talks")
    talk.add_argument("--yes", action="store_true", help="accept without asking")
    talk.add_argument("--json", action="store_true", help="one JSON object per event on standard output; needs --yes")
    talk.add_argument("--quiet", action="store_true", help="only how it ended")
    add("--leave", action="store_true", help="leave the job that this agent belongs to on this server, and end")
    return parser


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1; found {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"must be 0 to 3600 seconds; found {text!r}")
    return seconds


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of minutes above 0; found {text!r}")
    return minutes
