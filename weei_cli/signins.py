"""Which servers this person signed in to: one file for each, readable by its owner alone."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from platformdirs import user_config_path

from weei_cli.outcomes import usage

URL_VARIABLE, TOKEN_VARIABLE = "WEEI_URL", "WEEI_TOKEN"
_TOKEN = re.compile(r"weei_pat_[A-Za-z0-9_-]{20,180}")


@dataclass(frozen=True)
class SignIn:
    url: str
    token: str


def canonical_url(text: str) -> str:
    """Scheme, host and port. Raises `Failed`."""
    parts = urlsplit(text.strip())
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.path not in ("", "/"):
        raise usage(f"The address must be that of a server, such as https://weei.example; found {text!r}.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


def check_token(text: str) -> str:
    """The token if it looks like one, so that a pasted password is not sent anywhere."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise usage("The token must be one that the page “Access tokens” made; it begins with weei_pat_.")
    return token


class SignIns:
    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_config_path("weei") / "servers"

    def choose(self, url: str | None, environment: Mapping[str, str]) -> SignIn:
        """The server that `--url`, else WEEI_URL names, else the only one; its token, or WEEI_TOKEN."""
        named = url or environment.get(URL_VARIABLE)
        token = environment.get(TOKEN_VARIABLE)
        if named is None:
            named = self._only_one()
        named = canonical_url(named)
        if token is not None:
            return SignIn(named, check_token(token))
        found = self.load(named)
        if found is None:
            raise usage(f"You are not signed in to {named}. Type: weei login {named}", "not_signed_in")
        return found

    def _only_one(self) -> str:
        known = self.urls()
        if not known:
            raise usage("You are not signed in anywhere. Type: weei login URL", "not_signed_in")
        if len(known) > 1:
            raise usage(f"You are signed in to several servers; name one by --url: {', '.join(known)}.", "which_server")
        return known[0]

    def urls(self) -> list[str]:
        return sorted(found.url for path in self._folder.glob("*.json") if (found := _read(path)) is not None)

    def load(self, url: str) -> SignIn | None:
        return _read(self._path(url))

    def save(self, sign_in: SignIn) -> Path:
        """Atomically, and never for others to read, not even for a moment."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part, name = tempfile.mkstemp(dir=self._folder)  # mode 0600
        with os.fdopen(part, "w") as file:
            json.dump({"url": sign_in.url, "token": sign_in.token}, file)
        path = self._path(sign_in.url)
        os.replace(name, path)
        return path

    def forget(self, url: str) -> bool:
        try:
            self._path(url).unlink()
        except FileNotFoundError:
            return False
        return True

    def _path(self, url: str) -> Path:
        return self._folder / f"{quote(url, safe='')}.json"


def _read(path: Path) -> SignIn | None:
    try:
        stored = json.loads(path.read_text())
        return SignIn(str(stored["url"]), str(stored["token"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise usage(f"{path} cannot be read; remove it and sign in again.") from None
