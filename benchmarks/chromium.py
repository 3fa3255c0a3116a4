"""Runs a Worker in a Chromium that nobody drives: tools for tests slow a page down and keep it from being throttled."""

from __future__ import annotations

import functools
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OPTIONS = (
    "--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip
SECONDS = 120

PAGE = """<!doctype html><title>bench</title><script type="module">
const send = (answer) => fetch("/answer", { method: "POST", body: JSON.stringify(answer) });
const worker = new Worker(%s, { type: "module" });
worker.onmessage = ({ data }) => send({ answer: data });
worker.onerror = (event) => send({ error: event.message ?? "the Worker did not start" });
worker.postMessage(%s);
</script>"""


class ChromiumFailed(Exception):
    """What went wrong, in one sentence."""


def answer_of_page(worker: str, task: dict[str, Any], content: bytes) -> Any:
    """Post `task` to a module Worker, which finds `content` at /input; what it posts back."""
    page = PAGE % (json.dumps(worker), json.dumps(task))
    answers: queue.Queue[dict[str, Any]] = queue.Queue()
    handler = functools.partial(Handler, pages={"/": page.encode(), "/input": content}, answers=answers)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with chromium(f"http://127.0.0.1:{server.server_port}/"):
                answer = answers.get(timeout=SECONDS)
        except queue.Empty:
            raise ChromiumFailed(f"Chromium did not answer within {SECONDS} seconds.") from None
        finally:
            server.shutdown()
    if "error" in answer:
        raise ChromiumFailed(f"The Worker failed: {answer['error']}.")
    return answer["answer"]


@contextmanager
def chromium(url: str) -> Iterator[None]:
    program = shutil.which("chromium")
    if program is None:
        raise ChromiumFailed("This bench needs the program chromium. On Debian: sudo apt-get install chromium")
    # Chromium's sandbox does not start for root.
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory(prefix="weei-bench-", ignore_cleanup_errors=True) as folder:
        command = [program, *OPTIONS, *sandbox, f"--user-data-dir={folder}", url]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


class Handler(SimpleHTTPRequestHandler):
    """The project's files, some pages of its own, and a place to send an answer to."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript", ".wasm": "application/wasm"}

    def __init__(
        self, *args: Any, pages: dict[str, bytes], answers: queue.Queue[dict[str, Any]], **options: Any
    ) -> None:
        self._pages = pages
        self._answers = answers
        super().__init__(*args, directory=str(ROOT), **options)

    def do_GET(self) -> None:
        content = self._pages.get(self.path)
        if content is None:
            super().do_GET()
            return
        self._respond(content)

    def do_POST(self) -> None:
        self._answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._respond(b"")

    def _respond(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass
