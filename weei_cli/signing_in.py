"""`weei login` and `weei logout`."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Mapping

from weei_cli.api import Api
from weei_cli.outcomes import Exit, usage
from weei_cli.output import Printer
from weei_cli.signins import SignIn, SignIns, canonical_url, check_token


def ask(options: argparse.Namespace) -> SignIn:
    """The token, from standard input or asked for without showing it. Never an argument: others see those."""
    url = canonical_url(options.server)
    if options.token_stdin:
        return SignIn(url, check_token(sys.stdin.readline()))
    if not sys.stdin.isatty():
        raise usage("Nobody can be asked here; give the token by --token-stdin.")
    print(f"Make an access token at {url}/account/tokens/ and paste it here.", file=sys.stderr)
    try:
        return SignIn(url, check_token(getpass.getpass("Access token: ")))
    except EOFError:
        raise usage("No token was given.") from None


async def keep(api: Api, printer: Printer, signins: SignIns, sign_in: SignIn) -> Exit:
    """Only a token that the server takes is kept."""
    await api.get("/api/v1/jobs", limit=1)
    user = (await api.get("/api/v1/site"))["user"]
    path = signins.save(sign_in)
    printer.data({"url": sign_in.url, "user": user, "file": str(path)})
    printer.say(f"Signed in to {sign_in.url} as {user}. The token is kept in {path}.")
    return Exit.DONE


def which(options: argparse.Namespace, signins: SignIns, environment: Mapping[str, str]) -> SignIn:
    """For whom and where this command works."""
    if options.command != "logout":
        return signins.choose(options.url, environment)
    # What was stored is to be forgotten, whatever the environment says.
    return signins.choose(options.server, {})


async def forget(api: Api, printer: Printer, signins: SignIns, sign_in: SignIn, revoke: bool) -> Exit:
    if revoke:
        await api.delete_token()
    signins.forget(sign_in.url)
    printer.data({"url": sign_in.url, "revoked": revoke})
    end = "is revoked" if revoke else "is forgotten here; it works until it expires or is revoked"
    printer.say(f"Signed out of {sign_in.url}. The token {end}.")
    return Exit.DONE
