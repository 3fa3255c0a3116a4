"""The command line, as docs/command-line.md describes it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from weei_cli import __version__
from weei_cli.export import FORMATS

STATUSES = ("ready", "running", "paused", "completed")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weei",
        description="Coordinates training jobs of a Weei server from a terminal.",
        epilog="JOB is a job's id, a beginning of it that no other job has, or its exact name.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for add in (_signing_in, _jobs, _create, _running, _watch, _invite, _looking, _export):
        add(commands)
    return parser


Commands = argparse._SubParsersAction  # argparse has no public name for what add_subparsers returns
"""Where commands are added to."""


def _command(
    commands: Commands[argparse.ArgumentParser], name: str, what: str, *, url: bool = True
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    common = parser.add_argument_group("common options")
    if url:
        common.add_argument("--url", help="the server; default: WEEI_URL, else the only one you are signed in to")
    common.add_argument("--json", action="store_true", help="print JSON; errors too, as problem details")
    common.add_argument(
        "--patience",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long to ask a silent server again; default: %(default)g",
    )
    return parser


def _about_a_job(commands: Commands[argparse.ArgumentParser], name: str, what: str) -> argparse.ArgumentParser:
    parser = _command(commands, name, what)
    parser.add_argument("job", metavar="JOB", help="id, beginning of the id, or name")
    return parser


def _signing_in(commands: Commands[argparse.ArgumentParser]) -> None:
    login = _command(commands, "login", "keep an access token of a server for the next commands", url=False)
    login.add_argument("server", metavar="URL", help="such as https://weei.example")
    login.add_argument("--token-stdin", action="store_true", help="read the token from standard input, ask nothing")
    logout = _command(commands, "logout", "forget the access token of a server", url=False)
    logout.add_argument("server", metavar="URL", nargs="?", help="default: the only one you are signed in to")
    logout.add_argument("--revoke", action="store_true", help="end the token on the server too")


def _jobs(commands: Commands[argparse.ArgumentParser]) -> None:
    jobs = _command(commands, "jobs", "list your jobs, newest first")
    jobs.add_argument("--status", choices=STATUSES, help="only those")
    jobs.add_argument("--limit", type=_whole, default=50, help="how many at most; default: %(default)s")
    jobs.add_argument("--page", metavar="CURSOR", help="go on where the list before ended, as it said")
    jobs.add_argument("--all", action="store_true", help="all of them")
    _about_a_job(commands, "show", "show a job: status, progress, model, settings and newest metrics")


def _create(commands: Commands[argparse.ArgumentParser]) -> None:
    create = _command(commands, "create", "make a job from files, sending only what the server lacks")
    create.add_argument(
        "package",
        metavar="PACKAGE",
        nargs="?",
        type=Path,
        help="a folder or .zip with a module, its manifest and files",
    )
    files = create.add_argument_group("files, where PACKAGE does not say")
    files.add_argument("--module", type=Path, help="the model, a .wasm file")
    files.add_argument("--manifest", type=Path, help="the list of chunks, or a model package's manifest.json")
    files.add_argument(
        "--files", type=Path, nargs="+", metavar="PATH", help="chunks, or folders in which they are looked for"
    )
    files.add_argument("--validation", type=Path, metavar="FILE", help="held-out data that is never sent to anybody")
    files.add_argument("--execution-file", type=Path, metavar="FILE", help="the package's archive of shaders")
    files.add_argument("--checkpoint", type=Path, metavar="FILE", help="go on from a .weei-checkpoint file")
    files.add_argument(
        "--dataset-mode", choices=("new", "resume"), help="with --checkpoint: the data begins anew, or goes on"
    )
    job = create.add_argument_group("the job")
    job.add_argument("--name", help="default: the model's name")
    job.add_argument("--settings", type=Path, metavar="FILE", help="a JSON object of settings")
    _add_set(job)
    job.add_argument("--start", action="store_true", help="wait until somebody takes part, then start it")
    job.add_argument("--invite", action="store_true", help="make an invitation link for ten uses and print it")


def _add_set(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting, such as epochs=3 or aggregation.method=fedadam; null takes an optional one away",
    )


def _running(commands: Commands[argparse.ArgumentParser]) -> None:
    start = _about_a_job(commands, "start", "start a job that is ready")
    start.add_argument("--wait", action="store_true", help="wait until somebody takes part")
    _about_a_job(commands, "pause", "pause a job; work under way is given up")
    _about_a_job(commands, "resume", "go on with a paused job")
    _about_a_job(commands, "finish", "merge what was received and end the job for good")
    delete = _about_a_job(commands, "delete", "delete a job with its checkpoints")
    delete.add_argument("--yes", action="store_true", help="do not ask for the job's name")


def _watch(commands: Commands[argparse.ArgumentParser]) -> None:
    watch = _about_a_job(commands, "watch", "follow a job until it is completed or stops with an error")
    watch.add_argument("--until-round", type=_count, metavar="N", help="end when the checkpoint of round N is there")
    watch.add_argument(
        "--every", type=_seconds, default=1.0, metavar="SECONDS", help="between two looks; default: %(default)g"
    )


def _invite(commands: Commands[argparse.ArgumentParser]) -> None:
    invite = _about_a_job(commands, "invite", "make an invitation link and print it, this once")
    invite.add_argument("--uses", type=_whole, default=1, metavar="N", help="how many may join; default: %(default)s")
    invite.add_argument(
        "--expires", metavar="WHEN", help="a time such as 2026-12-31T18:00 in your zone, or 90m, 12h, 7d; default: 7d"
    )
    other = invite.add_mutually_exclusive_group()
    other.add_argument("--list", action="store_true", help="list the links instead")
    other.add_argument("--revoke", metavar="ID", help="end this link instead; the beginning of its id is enough")


def _looking(commands: Commands[argparse.ArgumentParser]) -> None:
    _about_a_job(commands, "participants", "list who takes part in a job")
    settings = _about_a_job(commands, "settings", "show a job's settings, or change them from the next round on")
    _add_set(settings)
    log = _about_a_job(commands, "log", "show what happened to a job, oldest first")
    log.add_argument("--limit", type=_whole, default=50, help="how many of the newest; default: %(default)s")
    log.add_argument("--follow", action="store_true", help="go on with what happens, until Ctrl-C or the job's end")
    checkpoints = _about_a_job(commands, "checkpoints", "list a job's checkpoints, newest first")
    checkpoints.add_argument("--limit", type=_whole, default=50, help="how many at most; default: %(default)s")
    validate = _about_a_job(commands, "validate", "evaluate a checkpoint on the held-out data, and wait for the result")
    validate.add_argument("--round", type=_count, metavar="N", help="which checkpoint; default: the newest")
    validate.add_argument("--no-wait", action="store_true", help="only ask for it")


def _export(commands: Commands[argparse.ArgumentParser]) -> None:
    export = _about_a_job(commands, "export", "save a file of a job, with its hash verified where it has one")
    export.add_argument("--round", type=_count, metavar="N", help="of which checkpoint; default: the newest")
    export.add_argument(
        "--format", choices=tuple(FORMATS), default="checkpoint", help="what to save; default: %(default)s"
    )
    export.add_argument(
        "-o", "--output", metavar="FILE", help="where to; - is standard output; default: its own name here"
    )
    export.add_argument("--force", action="store_true", help="replace a file that is there")


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1; found {text!r}")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _whole(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 0.05; found {text!r}")
    return seconds
