"""`make run` and `make demo`: check the machine, migrate, start every process, print the links, stop it all."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from typing import Any

from weei_site.launch import machine
from weei_site.launch.machine import CannotStart

LOOK_SECONDS = 0.5
REST_SECONDS = 2.5
"""The agents rest after each update. Without it the job would be over before a person has opened the page."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m weei_site.launch")
    parser.add_argument("--demo", action="store_true", help="with the digits job and two agents")
    rest = f"after each update of an agent; default: {REST_SECONDS:g}"
    parser.add_argument("--rest", type=float, default=REST_SECONDS, metavar="SECONDS", help=rest)
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return launch(options.demo, options.rest)
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not machine.says_disk_is_full(error):
            raise
        print("The disk is full. Free some space, or choose another folder with VAR_DIR.", file=sys.stderr)
        return 1


def launch(demo: bool, rest_seconds: float) -> int:
    port = machine.chosen_port(os.environ.get("PORT"))
    os.environ["PORT"] = str(port)
    os.environ.setdefault("PUBLIC_URLS", ",".join(machine.public_urls(port)))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings")
    import django
    from django.conf import settings

    machine.check_disk(settings.VAR_DIR, settings.MIN_FREE_FRACTION)
    machine.private_folder(settings.RUN_DIR)
    from weei_site.launch.supervision import Supervision

    supervision = Supervision(settings.RUN_DIR, settings.VAR_DIR / "log")
    supervision.claim()
    machine.check_port(port, "make demo" if demo else "make run")
    django.setup()
    from django.core.management import call_command

    _say("Preparing the database …")
    # Queueing and hints before the broker is up are normal here: the sweeper queues again, and nobody listens yet.
    for name in ("jobs.services.events", "peers.outbox"):
        logging.getLogger(name).setLevel(logging.ERROR)
    call_command("migrate", verbosity=0)
    return Launch(demo, port, rest_seconds, supervision).run()


class Launch:
    """One run: the processes under supervisor, and what is printed meanwhile."""

    def __init__(self, demo: bool, port: int, rest_seconds: float, supervision: Any) -> None:
        from django.conf import settings

        from weei_site.launch import demo as demo_data

        self.port = port
        self.supervision = supervision
        self.url = machine.local_url(settings.PUBLIC_URLS)
        self.owner = demo_data.owner()
        self.link: str | None = None
        self.watcher: demo_data.Watcher | None = None
        self.agents: list[Any] = []
        self._disk_was_full = False
        if demo:
            job = demo_data.demo_job(self.owner, _say)
            self.watcher = demo_data.Watcher(job)
            # Nobody can join a job that is completed.
            self.link = demo_data.invitation_link(job)
            if self.link:
                self.agents = demo_data.agents(self.link, self.url, rest_seconds)

    def run(self) -> int:
        from django.conf import settings

        from weei_site.launch import services

        chosen = [services.web(os.environ.get("LISTEN") or "0.0.0.0", self.port), *services.workers(), *self.agents]
        if not os.environ.get("REDIS_URL"):
            chosen.insert(0, services.valkey(settings.RUN_DIR / "valkey.sock"))
        configuration = settings.RUN_DIR / "supervisor.conf"
        services.write_configuration(configuration, chosen, run_dir=settings.RUN_DIR, log_dir=self.supervision.log_dir)
        _say(f"Starting {', '.join(service.name for service in chosen)} …")
        try:
            self.supervision.start(configuration)
            self.supervision.wait_until_up(self.url)
            self._print_links()
            while self.supervision.alive():
                for line in self._news():
                    _say(line)
                time.sleep(LOOK_SECONDS)
            raise CannotStart(f"The process manager ended; see {self.supervision.log_dir}/supervisor.log")
        except KeyboardInterrupt:
            _say("\nStopping …")
            return 0
        finally:
            self.supervision.stop()

    def _print_links(self) -> None:
        from weei_site.signin import link_create

        _say(f"Weei is running. Your dashboard (this link signs you in once):\n  {self.url}{link_create(self.owner)}")
        if self.link:
            _say(f"Invitation for other browsers and phones on your network (50 uses):\n  {self.link}")
        _say("Ctrl-C stops everything.")

    def _news(self) -> list[str]:
        """What happened since the last look. A full disk is said once, and does not end the run: it may get better."""
        from django.conf import settings
        from django.db import DatabaseError, connection

        news = list(self.supervision.troubles())
        full = machine.disk_is_full(settings.VAR_DIR)
        try:
            news += self.watcher.look() if self.watcher else ()
        except DatabaseError as error:
            connection.close()
            full = full or machine.says_disk_is_full(error)
            if not full:
                logging.getLogger(__name__).warning("the database did not answer: %s", error)
        if full != self._disk_was_full:
            self._disk_was_full = full
            news.append(
                f"The disk of {settings.VAR_DIR} is full: nothing new can be kept until you free some space."
                if full
                else "There is space on the disk again."
            )
        return news


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
