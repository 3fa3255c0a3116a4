"""`manage.py check`: what a deployment lacks, and what to change. docs/operations.md lists the ids."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from checkpoints.store import store
from weei_core.jail.parent import capabilities

SOCKET_PATH_BYTES = 107
"""What the kernel's address of a unix socket has room for, without the final zero."""

Apps = Sequence[AppConfig] | None


@register("weei")
def jail_is_whole(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    """Model modules run in a confined child; says which part of the confinement this machine does not give."""
    missing = {name: reason for name, reason in capabilities().items() if reason != "active"}
    if not missing:
        return []
    listed = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
    if set(missing.values()) == {"no child starts"}:
        return [Error("No child process for model modules starts, so no job can be made.", id="weei.E001")]
    hint = (
        "Modules still run in WebAssembly with limits. Make jobs only of modules you trust, or allow what is missing."
    )
    return [Warning(f"Model modules run without a part of their confinement: {listed}.", hint=hint, id="weei.W001")]


@register("weei")
def public_urls_are_origins(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    """Hosts, origins, cookies and links all come from PUBLIC_URLS."""
    hint = "Write PUBLIC_URLS as https://weei.example.org or http://192.168.0.7:8000, separated by commas."
    return [
        Error(f"PUBLIC_URLS must hold origins; found {url!r}: {reason}.", hint=hint, id="weei.E002")
        for url in settings.PUBLIC_URLS
        if (reason := _no_origin(url))
    ]


def _no_origin(url: str) -> str:
    """Why this is not scheme, host and perhaps port; empty if it is."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return str(error).rstrip(".")
    if parts.scheme not in ("http", "https"):
        return "it must start with http:// or https://"
    if not parts.hostname:
        return "it names no host"
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        return "it must end with the host or the port"
    return "the port must be above 0" if port == 0 else ""


@register("weei")
def hosts_are_named(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    """A wildcard would accept requests and links under any name (Host header attacks)."""
    wild = [host for host in settings.ALLOWED_HOSTS if "*" in host or host.startswith(".")]
    if not wild:
        return []
    hint = "Name every host in PUBLIC_URLS."
    return [Error(f"ALLOWED_HOSTS must name hosts; found {', '.join(wild)}.", hint=hint, id="weei.E003")]


@register("weei", deploy=True)
def site_is_served_over_https(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    """Plain http is a supported way to run on a network of one's own, and no way to run on the Internet."""
    plain = [url for url in settings.PUBLIC_URLS if not url.startswith("https://")]
    if not plain:
        return []
    hint = "Serve it through a proxy with a certificate, and write https:// in PUBLIC_URLS."
    return [
        Warning(f"Passwords and weights travel unencrypted to {', '.join(plain)}.", hint=hint, id="weei.W004"),
    ]


@register("weei")
def redis_socket_path_fits(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    if not settings.REDIS_URL.startswith("unix://"):
        return []
    path = settings.REDIS_URL.removeprefix("unix://")
    size = len(path.encode())
    if size <= SOCKET_PATH_BYTES:
        return []
    return [
        Error(
            f"The path of the Redis socket must have at most {SOCKET_PATH_BYTES} bytes; found {size}: {path}.",
            hint="Set RUN_DIR to a folder with a shorter path.",
            id="weei.E004",
        )
    ]


@register("weei")
def storage_is_writable(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    try:
        with store().temporary() as path:
            path.write_bytes(b"x")
        with tempfile.TemporaryFile(dir=settings.VAR_DIR) as file:
            file.write(b"x")
    except (OSError, ImproperlyConfigured) as error:
        hint = "STORAGE_URL and VAR_DIR must name folders that the server's user may write to."
        return [Error(f"The store of artifacts cannot be written: {error}.", hint=hint, id="weei.E005")]
    return []


@register("weei")
def disk_has_room(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    """Below this fraction uploads are refused."""
    try:
        usage = shutil.disk_usage(store().folder)
    except (OSError, ImproperlyConfigured):
        return []  # storage_is_writable says why
    if usage.free >= usage.total * settings.MIN_FREE_FRACTION:
        return []
    return [
        Warning(
            f"The disk of the store has {usage.free // 2**20} MiB free of {usage.total // 2**20}; uploads are refused "
            f"below {settings.MIN_FREE_FRACTION:.0%} (MIN_FREE_FRACTION).",
            hint="Delete jobs, or give the store a larger disk.",
            id="weei.W003",
        )
    ]


@register("weei")
def sqlite_can_write_ahead(app_configs: Apps, **options: Any) -> list[CheckMessage]:
    """Without a write-ahead log readers and writers wait for each other; some network file systems cannot keep one."""
    database = _database()
    if database["ENGINE"] != "django.db.backends.sqlite3" or "memory" in str(database["NAME"]):
        return []
    folder = Path(database["NAME"]).parent
    try:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            found = _journal_mode(Path(place) / "probe.sqlite3")
    except (OSError, sqlite3.Error) as error:
        found = str(error)
    if found == "wal":
        return []
    hint = "Set VAR_DIR or DATABASE_URL to a folder on a local disk, or use PostgreSQL."
    return [Warning(f"SQLite cannot keep a write-ahead log in {folder}: {found}.", hint=hint, id="weei.W002")]


def _database() -> dict[str, Any]:
    return dict(settings.DATABASES["default"])


def _journal_mode(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("CREATE TABLE probe (x)")
        return str(mode)
    finally:
        connection.close()
