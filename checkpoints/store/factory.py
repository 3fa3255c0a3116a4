"""The store that STORAGE_URL names.

`file:///folder`, or `s3://bucket/prefix?endpoint=https://…&region=…&cache_bytes=…` with the credentials where every
AWS client looks for them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.store.base import ArtifactStore
from checkpoints.store.files import FileStore


def store() -> ArtifactStore:
    return _open(settings.STORAGE_URL, settings.VAR_DIR)


@lru_cache(maxsize=4)
def _open(url: str, var_dir: Path) -> ArtifactStore:
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return FileStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        # Loading the AWS client takes a fifth of a second and 20 MiB, which a server on files need not pay.
        from checkpoints.store.s3 import CACHE_BYTES, S3Store

        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        prefix = parts.path.strip("/")
        return S3Store(
            var_dir / "artifact-cache",
            parts.netloc,
            f"{prefix}/" if prefix else "",
            endpoint=options.get("endpoint"),
            region=options.get("region"),
            cache_bytes=int(options.get("cache_bytes", CACHE_BYTES)),
        )
    raise ImproperlyConfigured(f"STORAGE_URL must start with file:/// or s3://bucket; found {url}.")
