"""`make run` and `make demo`: check the machine, migrate, start every process, print the links, stop it all."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from weei_site.launch import machine
from weei_site.launch.machine import CannotStart

START_SECONDS = 90
STOP_SECONDS = 40
LOOK_SECONDS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m weei_site.launch")
    parser.add_argument("--demo", action="store_true", help="with the digits job and two agents")
    demo = parser.parse_args().demo
    try:
        return launch(demo)
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if "disk is full" in str(error) or "No space left" in str(error):
            print("The disk is full. Free some space, or choose another folder with VAR_DIR.", file=sys.stderr)
            return 1
        raise


def launch(demo: bool) -> int:
    port = int(os.environ.get("PORT") or 8000)
    machine.check_port(port, "make demo" if demo else "make run")
    os.environ["PORT"] = str(port)
    os.environ.setdefault("PUBLIC_URLS", ",".join(machine.public_urls(port)))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings")
    import django

    django.setup()
    from django.conf import settings

    # Queueing before the broker is up is normal here; the sweeper does it again.
    logging.getLogger("jobs.services.events").setLevel(logging.ERROR)
    machine.check_disk(settings.VAR_DIR)
    settings.RUN_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    return Launch(demo, port).run()


class Launch:
    """One run: the processes under supervisor, and what is printed meanwhile."""

    def __init__(self, demo: bool, port: int) -> None:
        from weei_site.launch import demo as demo_data

        self.port = port
        self.user = demo_data.demo_user()
        self.job = demo_data.demo_job(self.user) if demo else None
        self.link = demo_data.invitation_link(self.job) if self.job else None
        self.watcher = demo_data.Watcher(self.job) if self.job else None

    def run(self) -> int:
        from django.conf import settings

        from weei_site.launch import services
        from weei_site.launch.demo import AGENTS, REST_SECONDS

        chosen = [services.web(os.environ.get("HOST") or "0.0.0.0", self.port), *services.workers()]
        if not os.environ.get("REDIS_URL"):
            chosen.insert(0, services.valkey(settings.RUN_DIR / "valkey.sock"))
        if self.link:
            local = f"http://127.0.0.1:{self.port}/join/" + self.link.split("/join/")[1]
            folder = settings.VAR_DIR / "agents"
            chosen += [services.agent(name, local, folder, REST_SECONDS) for name in AGENTS]
        configuration = settings.RUN_DIR / "supervisor.conf"
        log_dir = settings.VAR_DIR / "log"
        services.write_configuration(configuration, chosen, run_dir=settings.RUN_DIR, log_dir=log_dir)
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(configuration)]
        process = subprocess.Popen(command, preexec_fn=_end_with_parent, start_new_session=True)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            self._wait_until_up(process, log_dir)
            self._print_links()
            while process.poll() is None:
                for line in self.watcher.look() if self.watcher else ():
                    print(line, flush=True)
                time.sleep(LOOK_SECONDS)
            raise CannotStart(f"The process manager ended; see {log_dir}/supervisor.log")
        except KeyboardInterrupt:
            print("\nStopping …", flush=True)
            return 0
        finally:
            _stop(process)

    def _wait_until_up(self, process: subprocess.Popen[bytes], log_dir: Path) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/sign-in/", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise CannotStart(f"The web server did not start; see {log_dir}/web.log")

    def _print_links(self) -> None:
        from weei_site.signin import link_create

        sign_in = f"http://localhost:{self.port}{link_create(self.user)}"
        print(f"Weei is running. Your dashboard (this link signs you in once):\n  {sign_in}")
        if self.link:
            print(f"Invitation for other browsers and phones on your network (50 uses):\n  {self.link}")
        print("Ctrl-C stops everything.", flush=True)


def _end_with_parent() -> None:
    """If this program is killed outright, the kernel stops supervisor, which stops the rest. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
