"""The command `weei`: one command, one answer, one exit code."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence

from weei_cli import __version__, creating, export, inviting, looking, running, signing_in, watching
from weei_cli.api import Api
from weei_cli.options import make_parser
from weei_cli.outcomes import Exit, Failed
from weei_cli.output import Printer
from weei_cli.signins import SignIn, SignIns
from weei_client.clock import SystemClock
from weei_client.server import Server

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 5.0
LOUD_SECONDS = 1.0
"""A shorter hiccup is not worth a line."""

Command = Callable[[Api, Printer, argparse.Namespace], Awaitable[Exit]]
COMMANDS: dict[str, Command] = {
    "jobs": looking.jobs,
    "show": looking.show,
    "create": creating.create,
    "start": running.start,
    "pause": running.pause,
    "resume": running.resume,
    "finish": running.finish,
    "delete": running.delete,
    "watch": watching.watch,
    "invite": inviting.invite,
    "participants": looking.participants,
    "settings": running.settings,
    "log": watching.log,
    "checkpoints": looking.checkpoints,
    "validate": running.validate,
    "export": export.export,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    printer = Printer(as_json=options.json)
    try:
        return int(_run(options, printer))
    except Failed as failed:
        printer.failed(failed)
        return int(failed.exit_code)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read has enough. Python would complain once more when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.DONE)
    except OSError as error:
        printer.failed(
            Failed(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}.", code="os_error")
        )
        return int(Exit.FAILED)


def _run(options: argparse.Namespace, printer: Printer) -> Exit:
    signins = SignIns()
    if options.command == "login":
        sign_in = signing_in.ask(options)
        return asyncio.run(
            _with(sign_in, options, printer, lambda api: signing_in.keep(api, printer, signins, sign_in))
        )
    sign_in = signing_in.which(options, signins, os.environ)
    if options.command == "logout":
        revoke = options.revoke
        return asyncio.run(
            _with(sign_in, options, printer, lambda api: signing_in.forget(api, printer, signins, sign_in, revoke))
        )
    command = COMMANDS[options.command]
    return asyncio.run(_with(sign_in, options, printer, lambda api: command(api, printer, options)))


async def _with(
    sign_in: SignIn, options: argparse.Namespace, printer: Printer, work: Callable[[Api], Awaitable[Exit]]
) -> Exit:
    def trouble(reason: str, delay: float) -> None:
        if delay >= LOUD_SECONDS:
            printer.note(f"{reason}; trying again in {delay:.0f} s.")

    server = Server(
        sign_in.url,
        program=f"weei/{__version__}",
        clock=SystemClock(),
        first_retry=FIRST_RETRY_SECONDS,
        last_retry=LAST_RETRY_SECONDS,
        on_trouble=trouble,
        says_origin=False,
    )
    server.authorize(sign_in.token)
    try:
        return await work(Api(server, options.patience))
    finally:
        await server.close()
