"""A Chromium that Playwright does not drive: its tabs can be hidden, throttled and frozen as on a real desktop.

Playwright keeps every page visible and its timers unthrottled; the DevTools protocol alone does not.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

START_SECONDS = 30
# Timers of a hidden page run once a minute after five minutes; here after ten seconds.
THROTTLED = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/10"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0", THROTTLED,
)  # fmt: skip


class ProtocolError(Exception):
    """What the DevTools protocol answered instead of a result."""


class RawChromium:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weei-chromium-", ignore_cleanup_errors=True)
        program = shutil.which("chromium")
        assert program is not None
        command = [program, *OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._numbers = itertools.count(1)

    def __enter__(self) -> RawChromium:
        port_file = Path(self._folder.name) / "DevToolsActivePort"
        end = time.monotonic() + START_SECONDS
        while not (port_file.exists() and len(port_file.read_text().split()) == 2):
            assert self._process.poll() is None, "Chromium ended at once"
            assert time.monotonic() < end, "Chromium did not open its debugging port"
            time.sleep(0.05)
        port, path = port_file.read_text().split()
        self._socket: ClientConnection = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, legacy=True)
        return self

    def __exit__(self, *args: object) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except Exception:
            self._process.kill()
            self._process.wait()
        self._socket.close()
        self._folder.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps({**message, **({"sessionId": session} if session else {})}))
        while True:
            answer = json.loads(self._socket.recv(timeout=30))
            if answer.get("id") == number:
                if "error" in answer:
                    raise ProtocolError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url: str) -> RawPage:
        """A new tab in front; the one before it is hidden from then on."""
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.call("Target.activateTarget", targetId=target)
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return RawPage(self, session)


class RawPage:
    def __init__(self, browser: RawChromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def evaluate(self, expression: str) -> Any:
        answer = self._browser.call(
            "Runtime.evaluate", self._session, expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, id: str) -> str:
        """What a person reads there; empty when it is not shown, or not there yet."""
        try:
            return self.evaluate(f"document.getElementById({json.dumps(id)})?.innerText ?? ''")
        except ProtocolError as error:
            # Between two documents there is nothing to read.
            if "context" in str(error):
                return ""
            raise

    def click(self, id: str) -> None:
        self.evaluate(f"document.getElementById({json.dumps(id)}).click()")

    @property
    def hidden(self) -> bool:
        return self.evaluate("document.visibilityState") == "hidden"

    def freeze(self) -> None:
        self._browser.call("Page.setWebLifecycleState", self._session, state="frozen")

    def thaw(self) -> None:
        self._browser.call("Page.setWebLifecycleState", self._session, state="active")
