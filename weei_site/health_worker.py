"""Whether one worker is alive: `python -m weei_site.health_worker fast` on its machine ends with 0 or 1 and a sentence.

Asking a worker over the broker (`celery inspect ping`) finds a `solo` worker dead whenever it works, and every worker
dead while Redis is away. So each writes down, every few seconds and from a thread that its work does not hold up, when
its consumer was last heard of and what it works on; the check reads that file.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

BEAT_SECONDS = 5.0
SILENT_SECONDS = 30.0
"""A process that wrote nothing for so long hangs or is gone (by a clock that nobody sets)."""
CONSUMER_SECONDS = 60.0
"""A consumer that was not heard of for so long, with nothing to work on and Redis at hand, takes no tasks any more."""


def file_of(run_dir: Path, name: str) -> Path:
    return run_dir / f"worker-{name}.json"


class Beat:
    """What one worker writes down."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._consumer_at = time.monotonic()
        self._tasks: dict[str, tuple[str, float]] = {}

    def consumer_heard(self) -> None:
        self._consumer_at = time.monotonic()

    def begun(self, task_id: str, name: str) -> None:
        with self._lock:
            self._tasks[task_id] = (name, time.monotonic())

    def ended(self, task_id: str) -> float | None:
        """Seconds that it took."""
        with self._lock:
            found = self._tasks.pop(task_id, None)
        # A solo worker's consumer had no turn meanwhile.
        self._consumer_at = time.monotonic()
        return None if found is None else time.monotonic() - found[1]

    def write(self) -> None:
        with self._lock:
            tasks = [{"task": name, "since": since} for name, since in self._tasks.values()]
        said = {"pid": os.getpid(), "at": time.monotonic(), "consumer_at": self._consumer_at, "tasks": tasks}
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(said))
        temporary.replace(self._path)

    def start(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

        def run() -> None:
            while True:
                try:
                    self.write()
                except OSError as error:
                    print(f"the worker's state was not written: {error}", file=sys.stderr)
                time.sleep(BEAT_SECONDS)

        threading.Thread(target=run, name="beat", daemon=True).start()


def verdict(path: Path, broker_answers: Any, now: float | None = None) -> tuple[bool, str]:
    """Whether the worker that writes this file is well, and a sentence about it."""
    now = time.monotonic() if now is None else now
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return False, f"No worker has written {path}."
    silent = now - said["at"]
    if silent > SILENT_SECONDS:
        return False, f"Process {said['pid']} has not been heard of for {silent:.0f} s."
    if said["tasks"]:
        oldest = min(said["tasks"], key=lambda task: task["since"])
        return True, f"At work on {oldest['task']} for {now - oldest['since']:.0f} s."
    idle = now - said["consumer_at"]
    if idle <= CONSUMER_SECONDS:
        return True, "Waits for tasks."
    if not broker_answers():
        return True, f"Waits for Redis, which does not answer; last connected {idle:.0f} s ago."
    return False, f"Takes no tasks: its consumer has not been heard of for {idle:.0f} s, though Redis answers."


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not arguments[0]:
        print("usage: python -m weei_site.health_worker fast|slow", file=sys.stderr)
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings")
    from django.conf import settings

    name = arguments[0] if "@" in arguments[0] else f"{arguments[0]}@{socket.gethostname()}"
    well, sentence = verdict(file_of(settings.RUN_DIR, name), _broker_answers)
    print(sentence)
    return 0 if well else 1


def _broker_answers() -> bool:
    import redis
    from django.conf import settings

    try:
        with redis.Redis.from_url(settings.QUEUE_URL, socket_connect_timeout=1, socket_timeout=1) as client:
            client.ping()
    except redis.RedisError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
