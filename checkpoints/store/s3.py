"""Artifacts in an S3 bucket: `<prefix>sha256/<hash>`, slices as `<prefix>uploads/<id>/<offset>`.

An object of S3 appears whole or not at all. What is read comes from a cache on this machine's disk, verified.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import UUID

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from checkpoints.store.base import ArtifactStore
from checkpoints.store.verified import corrupt
from weei_core.errors import Unavailable

CACHE_BYTES = 10 * 1024**3
CACHE_GRACE_SECONDS = 600
"""What was used so recently is never evicted: somebody may be about to open it."""
_MISSING = frozenset({"404", "NoSuchKey", "NotFound"})


class S3Store(ArtifactStore):
    def __init__(
        self,
        folder: Path,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__(folder)
        self._bucket = bucket
        self._prefix = prefix
        self._cache = folder / "cache"
        self._cache.mkdir(exist_ok=True)
        self._cache_bytes = cache_bytes
        config = Config(retries={"max_attempts": 3, "mode": "standard"}, connect_timeout=5, read_timeout=60)
        self._client: Any = boto3.client("s3", endpoint_url=endpoint, region_name=region, config=config)

    def _key(self, sha256: str) -> str:
        return f"{self._prefix}sha256/{sha256}"

    def put(self, temporary: Path, sha256: str, *, durable: bool = True) -> None:
        self._upload(temporary, self._key(sha256))
        self._keep(temporary, sha256)

    def _upload(self, temporary: Path, key: str) -> None:
        # An open file, not a name: during a long transfer the temporary file may be swept.
        with _answers(), temporary.open("rb") as file:
            self._client.upload_fileobj(file, self._bucket, key)

    def exists(self, sha256: str) -> bool:
        try:
            with _answers():
                self._client.head_object(Bucket=self._bucket, Key=self._key(sha256))
        except FileNotFoundError:
            return False
        return True

    def local(self, sha256: str, *, verify: bool = True) -> Path:
        path = self._cache / sha256
        if self.verified.is_whole(path, sha256):
            # The access time decides who is evicted; the modification time must stay, the memory of checks needs it.
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
            return path
        path.unlink(missing_ok=True)
        with self.temporary() as temporary:
            self._download(sha256, temporary)
            self._keep(temporary, sha256)
        return path

    def _download(self, sha256: str, temporary: Path) -> None:
        """Into the file, verified."""
        try:
            with _answers():
                self._client.download_file(self._bucket, self._key(sha256), str(temporary))
        except FileNotFoundError:
            raise corrupt(sha256, "is missing") from None
        self.verified.check(temporary, sha256)

    def check_stored(self, sha256: str) -> None:
        """The bucket's bytes, whatever the cache holds."""
        with self.temporary() as temporary:
            self._download(sha256, temporary)

    def check_writable(self) -> None:
        super().check_writable()
        with _answers():
            self._client.put_object(Bucket=self._bucket, Key=f"{self._prefix}ready", Body=b"")

    def create_bucket(self) -> bool:
        """False: it was there."""
        try:
            with _answers():
                self._client.head_bucket(Bucket=self._bucket)
        except FileNotFoundError:
            pass
        else:
            return False
        region = self._client.meta.region_name
        # S3 takes its first region for granted, and refuses to hear it.
        place = {} if region in (None, "us-east-1") else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        with _answers():
            self._client.create_bucket(Bucket=self._bucket, **place)
        return True

    def _keep(self, temporary: Path, sha256: str) -> None:
        """In the cache. The caller knows that the bytes are whole."""
        self.verified.vouch(temporary, sha256)
        with suppress(FileExistsError, FileNotFoundError):
            os.link(temporary, self._cache / sha256)
        self._evict()

    def _evict(self) -> None:
        """Least recently used first, until the cache is within its limit (or all that is left is in use)."""
        kept: list[tuple[float, int, str]] = []
        for entry in os.scandir(self._cache):
            with suppress(FileNotFoundError):
                status = entry.stat()
                kept.append((max(status.st_atime, status.st_mtime), status.st_size, entry.path))
        total = sum(size for _, size, _ in kept)
        young = time.time() - CACHE_GRACE_SECONDS
        for used, size, name in sorted(kept):
            if total <= self._cache_bytes or used > young:
                return
            with suppress(FileNotFoundError):
                os.unlink(name)
            total -= size

    def delete(self, sha256: str) -> None:
        with _answers():
            self._client.delete_object(Bucket=self._bucket, Key=self._key(sha256))
        (self._cache / sha256).unlink(missing_ok=True)

    def names(self, first_digits: str) -> Iterator[tuple[str, float]]:
        for found in self._listed(self._key(first_digits)):
            yield found["Key"].rpartition("/")[2], found["LastModified"].timestamp()

    def redirect(self, sha256: str, disposition: str, seconds: int) -> str | None:
        wanted = {
            "Bucket": self._bucket,
            "Key": self._key(sha256),
            "ResponseContentDisposition": disposition,
            "ResponseContentType": "application/octet-stream",
        }
        return cast(str, self._client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=seconds))

    def _slice_key(self, upload: UUID, offset: int | str) -> str:
        return f"{self._prefix}uploads/{upload}/{offset}"

    def put_slice(self, upload: UUID, offset: int, temporary: Path) -> None:
        self._upload(temporary, self._slice_key(upload, offset))
        temporary.unlink(missing_ok=True)

    def open_slice(self, upload: UUID, offset: int) -> BinaryIO:
        with _answers():
            found = self._client.get_object(Bucket=self._bucket, Key=self._slice_key(upload, offset))
        return cast(BinaryIO, found["Body"])

    def delete_slices(self, upload: UUID) -> None:
        for found in self._listed(self._slice_key(upload, "")):
            with _answers():
                self._client.delete_object(Bucket=self._bucket, Key=found["Key"])

    def uploads(self) -> Iterator[UUID]:
        seen: set[str] = set()
        for found in self._listed(f"{self._prefix}uploads/"):
            upload = found["Key"].split("/")[-2]
            if upload not in seen:
                seen.add(upload)
                yield UUID(upload)

    def _listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        with _answers():
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
                yield from page.get("Contents", ())


@contextmanager
def _answers() -> Iterator[None]:
    """S3's errors as ours: what is not there is FileNotFoundError, all else may be tried again."""
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in _MISSING:
            raise FileNotFoundError(code) from error
        raise Unavailable(f"The artifact store answered {code or 'with an error'}; try again.") from error
    except (BotoCoreError, Boto3Error) as error:
        raise Unavailable("The artifact store does not answer; try again.") from error
