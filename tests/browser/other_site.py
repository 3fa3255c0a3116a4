"""A site of somebody else: a small server on a port of its own, whose page loads weei.js from ours."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

EXAMPLES = Path(__file__).with_name("seed_examples.js")
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Another site</title>
<link rel="icon" href="data:,">
<script type="module" src="{weei}/static/weei/weei.js"></script>
<script type="module" src="/page.js"></script>
<main><h1>School</h1><button id="sign-in">Sign in with Weei</button> <output id="said"></output>
<input type="file" id="wasmInput"><input type="file" id="manifestInput"><input type="file" id="datasetInput" multiple>
</main></html>
"""
SCRIPT = """
import * as examples from "/seed_examples.js";
Object.assign(window, { examples });
const said = document.getElementById("said");
document.getElementById("sign-in").addEventListener("click", async () => {
  const { weei } = window;
  said.textContent = await weei.signIn().then(() => `signed in as ${weei.user}`, (error) => error.message);
});
window.weei = await window.weeiReady;
"""


class OtherSite:
    """`address(policy=…)` serves the page with that Content-Security-Policy; `headers` go with every answer."""

    def __init__(self, weei: str, host: str = "127.0.0.1") -> None:
        site = self
        self.weei = weei
        self.headers: dict[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://{host}:{self._server.server_port}"

    def __enter__(self) -> OtherSite:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        pages = {
            "/": ("text/html", PAGE.replace("{weei}", self.weei)),
            "/page.js": ("text/javascript", SCRIPT),
            "/seed_examples.js": ("text/javascript", EXAMPLES.read_text(encoding="utf-8")),
        }
        media_type, text = pages.get(urlsplit(request.path).path, ("", ""))
        body = text.encode()
        request.send_response(200 if text else 404)
        for name, value in {"Content-Type": f"{media_type}; charset=utf-8", **self.headers}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def register(self, stack, **fields: object) -> OtherSite:
        """As an administrator does."""
        stack.shell(
            "from peers.models import SiteOrigin\n"
            'site = SiteOrigin(origin=origin, name="School", **fields)\n'
            "site.full_clean()\nsite.save()\nanswer = None",
            origin=self.origin,
            fields=fields,
        )
        return self

    def open(self, page) -> None:
        page.goto(f"{self.origin}/")
        # Not by polling, which the page's policy may forbid.
        page.evaluate("weeiReady.then((weei) => void (window.weei = weei))")
