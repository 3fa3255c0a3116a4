"""A small server that keeps to docs/protocol.md, runs in a thread, and can be told to misbehave.

It knows one job. Each accepted update ends a round and its weights start the next one. Faults are set before the agent
starts: counters say how often, hooks are functions called in the server's own loop when something has happened.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import socket
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from weei_core import protocol

LINK_TOKEN = "right-token"
SETTINGS = '{"localEpochs":1,"batchSize":16,"learningRate":0.05}'
MODEL_INFO = {
    "id": "toy",
    "version": "1.0.0",
    "name": "Toy model",
    "abiVersion": 1,
    "weightFormat": "float32-le",
    "maxWorkers": 1,
    "dataFormats": [{"id": "raw", "label": "Raw", "acceptedMimeTypes": ["application/octet-stream"]}],
    "metrics": [{"id": "loss", "label": "Loss", "direction": "minimize"}],
}


class Refusal(Exception):
    def __init__(self, status, code, title="Refused.", headers=None):
        self.response = JSONResponse(
            {"type": f"/help/errors#{code}", "title": title, "status": status, "code": code},
            status_code=status,
            media_type="application/problem+json",
            headers=headers,
        )


class FakeServer:
    def __init__(self, *, rounds=2, chunks=(b"first chunk", b"second chunk"), module=b"\0asm fake", weights=None):
        self.rounds = rounds
        self.module = module
        self.files = {}
        self.module_sha = self.keep(module)
        self.chunks = [self.keep(chunk) for chunk in chunks]
        self.weights_sha = self.keep(np.zeros(4, "<f4").tobytes() if weights is None else weights)
        self.format, self.examples, self.settings = "raw", 128, SETTINGS
        self.inline, self.seconds_left, self.stall_minutes = True, 100.0, 10.0
        self.job_id = str(uuid.uuid4())
        self.tokens = {}
        self.member, self.ready, self.paused, self.status = None, False, False, "running"
        self.round, self.session, self.sequence = 1, 0, 0
        self.attempt = None
        self.accepted = {}
        self.uploads = {}
        self.sockets = []
        # What happened.
        self.log = []
        self.hellos, self.snapshots, self.failures, self.ranges = [], [], [], []
        # What goes wrong.
        self.corrupt = defaultdict(int)
        self.cut_downloads = self.cut_uploads = self.busy_uploads = self.lose_slices = 0
        self.refuse_upload = None
        self.refuse, self.refused = {}, []
        self.hooks = defaultdict(list)
        self.sockets_allowed = True
        self.hello_delay = 0.0
        self._restart = False

    # The world.

    def keep(self, data):
        sha = hashlib.sha256(data).hexdigest()
        self.files[sha] = data
        return sha

    def on(self, what, hook: Callable[[], object]):
        """Call `hook` once, at the next `what`."""
        self.hooks[what].append(hook)

    def happened(self, what):
        self.log.append(what)
        if self.hooks[what]:
            self.hooks[what].pop(0)()

    def deal(self):
        """A new attempt at this round's work; the one before is over."""
        self.attempt = str(uuid.uuid4())

    def state(self):
        job = {
            "id": self.job_id,
            "name": "Toy job",
            "status": self.status,
            "round": self.round,
            "role": "participant",
            "trains": True,
            "state": "assigned" if self.attempt else "modelLoaded",
            "ready": self.ready,
            "pausedByPeer": self.paused,
            "pausedByCoordinator": False,
            "module": {"fileName": "model.wasm", "bytes": len(self.module), "sha256": self.module_sha},
            "auxiliary": [],
            "workers": 1,
            "stallMinutes": self.stall_minutes,
            "waitingFor": "this agent",
            "passesDone": 0,
            "plannedPasses": 1,
            "error": None,
        }
        return {
            "peerId": self.member or "nobody",
            "session": self.session,
            "invitations": [],
            "job": job if self.member else None,
            "assignment": self.assignment() if self.member and self.attempt else None,
        }

    def assignment(self):
        weights, chunk = self.files[self.weights_sha], self.chunks[(self.round - 1) % len(self.chunks)]
        inline = {"inline": base64.b64encode(weights).decode()} if self.inline else {}
        return {
            "attemptId": self.attempt,
            "assignmentId": f"assignment-{self.round}",
            "jobId": self.job_id,
            "round": self.round,
            "chunkId": f"chunk-{self.round}",
            "exampleCount": self.examples,
            "moduleSha256": self.module_sha,
            "weights": {"sha256": self.weights_sha, "bytes": len(weights), **inline},
            "data": {"sha256": chunk, "bytes": len(self.files[chunk]), "format": self.format},
            "auxiliary": [],
            "settings": self.settings,
            "seed": "42",
            "split": 1,
            "backend": "cpu-wasm",
            "secondsLeft": self.seconds_left,
        }

    def accept(self, data, report):
        self.accepted[self.attempt] = hashlib.sha256(data).hexdigest()
        self.weights_sha = self.keep(data)
        self.log.append(("report", report))
        self.attempt = None
        if self.round == self.rounds:
            self.status = "completed"
        else:
            self.round += 1
            self.deal()
        self.happened("accepted")
        self.tell()

    def remove_peer(self):
        self.member = self.attempt = None
        self.tell()

    def tell(self):
        for ws in self.sockets:
            asyncio.create_task(self._send(ws, {"type": "state", **self.state()}))

    def close_sockets(self, code=1011):
        for ws in list(self.sockets):
            asyncio.create_task(self._close(ws, code))

    def restart(self):
        self._restart = True
        self._uvicorn.should_exit = True

    async def _send(self, ws, message):
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await ws.send_json(message)

    async def _close(self, ws, code):
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await ws.close(code)

    # HTTP.

    def peer(self, request):
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            raise Refusal(401, "unauthorized", "No such peer.")
        return self.tokens[token]

    async def api(self, request: Request):
        try:
            name = request.path_params["name"]
            if name in self.refuse:
                self.refused.append(name)
                raise self.refuse[name]
            body = await request.json() if request.method == "POST" else {}
            if request.headers["origin"] != self.origin:
                raise Refusal(403, "forbidden", "Wrong origin.")
            return JSONResponse(self.answer(name, request, body), 201 if name == "peers" else 200)
        except Refusal as refusal:
            return refusal.response

    def answer(self, name, request, body):
        if name == "peers":
            token = f"token-{len(self.tokens)}"
            self.tokens[token] = f"peer-{len(self.tokens)}"
            return {"peerId": self.tokens[token], "token": token}
        peer = self.peer(request)
        self.happened(name)
        if name == "invitations/open":
            if body["token"] != LINK_TOKEN:
                raise Refusal(404, "invitation_invalid", "This invitation is not valid.")
            return self.invitation()
        if name == "invitations/decide":
            self.member = peer
        elif name == "peer/ready":
            assert body.pop("workers") >= 1
            assert body == {"jobId": self.job_id, "moduleSha256": self.module_sha, "auxiliary": {}}
            self.ready = True
            if self.attempt is None and self.status == "running":
                self.deal()
        elif name == "peer/load-failed":
            self.failures.append(body["reason"])
        elif name == "peer/pause":
            self.paused = body["paused"]
            self.attempt = None if self.paused else self.attempt
            if not self.paused and self.ready:
                self.deal()
        elif name == "peer/leave":
            self.member = None
        elif name.endswith("/failed") and name.split("/")[2] == self.attempt:
            self.failures.append(body["reason"])
            self.deal()
        self.tell()
        return self.state()

    def invitation(self):
        return {
            "jobId": self.job_id,
            "jobName": "Toy job",
            "coordinator": "Ada \x1b[31m",
            "modelInfo": MODEL_INFO,
            "module": {"fileName": "model.wasm", "bytes": len(self.module), "sha256": self.module_sha},
            "settings": json.loads(self.settings),
            "auxiliary": [],
            "data": {"chunks": 2, "bytes": 23, "examples": 256, "largestChunkBytes": 12},
            "weightBytes": len(self.files[self.weights_sha]),
            "requirements": {"requiredFeatures": [], "minimumDeviceLimits": {}, "estimatedWorkingBytes": None},
            "state": "invited",
        }

    async def download(self, request: Request):
        try:
            self.peer(request)
        except Refusal as refusal:
            return refusal.response
        sha = request.path_params["sha"]
        data = self.files[sha]
        if self.corrupt[sha]:
            self.corrupt[sha] -= 1
            data = bytes([data[0] ^ 1]) + data[1:]
        self.log.append(("download", sha))
        start = int(request.headers.get("range", "bytes=0-")[6:-1])
        self.ranges.append(start)
        headers = {"Content-Length": str(len(data) - start), "ETag": f'"{sha}"'}
        sent = data[start:]
        if self.cut_downloads:
            self.cut_downloads -= 1
            sent = sent[: len(sent) // 2]

        async def body():
            yield sent

        return StreamingResponse(body(), 206 if start else 200, headers)

    async def upload(self, request: Request):
        try:
            self.peer(request)
            assert request.headers["tus-resumable"] == "1.0.0"
            if self.busy_uploads:
                self.busy_uploads -= 1
                raise Refusal(503, "unavailable", "Too many uploads.", {"Retry-After": "0"})
            return await {"POST": self.create, "PATCH": self.append, "HEAD": self.offset}[request.method](request)
        except Refusal as refusal:
            return refusal.response

    async def create(self, request):
        pairs = (pair.split(" ") for pair in request.headers["upload-metadata"].split(","))
        meta = {key: base64.b64decode(value).decode() for key, value in pairs}
        size = int(request.headers["upload-length"])
        self.check(meta, size)
        upload = str(uuid.uuid4())
        self.uploads[upload] = (meta, size, bytearray())
        return await self.take(request, upload, 201)

    async def append(self, request):
        meta, size, data = self.uploads[request.path_params["id"]]
        if int(request.headers["upload-offset"]) != len(data):
            return Response(status_code=409)
        return await self.take(request, request.path_params["id"], 204)

    async def offset(self, request):
        if request.path_params["id"] not in self.uploads:
            return Response(status_code=404)
        return Response(headers={"Upload-Offset": str(len(self.uploads[request.path_params["id"]][2]))})

    def check(self, meta, size):
        if meta["kind"] != "update":
            raise Refusal(403, "forbidden")
        if meta["attempt"] not in (self.attempt, *self.accepted):
            raise Refusal(409, "stale_attempt", "This attempt is over.")
        if size != len(self.files[self.weights_sha]):
            raise Refusal(422, "wrong_size", "Wrong size.")
        if self.refuse_upload:
            refusal, self.refuse_upload = self.refuse_upload, None
            self.happened("refused upload")
            raise refusal

    async def take(self, request, upload, status):
        meta, size, data = self.uploads[upload]
        body = await request.body()
        if self.lose_slices and body:
            self.lose_slices -= 1
            data += body[: len(body) // 2]
            return _cut(status)
        data += body
        headers = {"Location": f"/bytes/uploads/{upload}", "Upload-Offset": str(len(data)), "Tus-Resumable": "1.0.0"}
        if len(data) < size:
            return Response(status_code=status, headers=headers)
        if hashlib.sha256(data).hexdigest() != meta["sha256"]:
            raise Refusal(422, "hash_mismatch", "Other bytes came.")
        before = self.accepted.get(meta["attempt"])
        if before not in (None, meta["sha256"]):
            raise Refusal(409, "already_received", "Another update was accepted.")
        if before is None:
            self.accept(bytes(data), json.loads(meta["report"]))
        self.log.append(("uploaded", before is not None))
        if before:
            headers["Weei-Duplicate"] = "true"
        if self.cut_uploads:
            self.cut_uploads -= 1
            return _cut(status)
        if status == 204:
            return Response(status_code=204, headers=headers)
        answer = {"sha256": meta["sha256"], "bytes": size, "duplicate": before is not None}
        return JSONResponse(answer, status, headers)

    # Websocket.

    async def socket(self, ws: WebSocket):
        if not self.sockets_allowed or ws.headers.get("origin") != self.origin:
            await ws.close()
            return
        await ws.accept()
        try:
            await self.converse(ws)
        except WebSocketDisconnect as closed:
            self.log.append(("closed", closed.code))
        finally:
            if ws in self.sockets:
                self.sockets.remove(ws)

    async def converse(self, ws):
        hello = protocol.parse_client_message(await ws.receive_text())
        assert isinstance(hello, protocol.Hello) and hello.train
        if hello.token not in self.tokens:
            await ws.close(protocol.CLOSE_UNAUTHORIZED)
            return
        if hello.session is not None and hello.session != self.session:
            await ws.close(protocol.CLOSE_REPLACED)
            return
        await asyncio.sleep(self.hello_delay)
        if hello.session is None:
            self.session += 1
        self.hellos.append(hello)
        if self.attempt and self.ready and str(hello.attemptId) != self.attempt:
            self.deal()
        welcome = {"type": "welcome", "protocol": 1, "peerId": self.tokens[hello.token], "session": self.session}
        await ws.send_json(welcome | {"sequence": 100, "heartbeatSeconds": 5, "pollSeconds": 10})
        self.sockets.append(ws)
        await ws.send_json({"type": "state", **self.state()})
        self.happened("hello")
        while True:
            message = protocol.parse_client_message(await ws.receive_text())
            if isinstance(message, protocol.Diagnostics):
                assert len(json.dumps(message.snapshot)) <= protocol.MAX_SNAPSHOT_BYTES
                self.snapshots.append(message.snapshot)
                self.happened(f"stage {message.snapshot['stage']}")

    # The thread.

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.link = f"{self.origin}/join/{LINK_TOKEN}"
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_):
        self._uvicorn.should_exit = self._uvicorn.force_exit = True
        self._thread.join(10)

    async def _serve(self):
        routes = [
            Route("/api/v1/{name:path}", self.api, methods=["GET", "POST"]),
            Route("/bytes/jobs/{job}/{sha}", self.download),
            Route("/bytes/uploads", self.upload, methods=["POST"]),
            Route("/bytes/uploads/{id}", self.upload, methods=["PATCH", "HEAD"]),
            WebSocketRoute("/ws/peer", self.socket),
        ]
        app = Starlette(routes=routes)
        while True:
            self._restart = False
            config = uvicorn.Config(
                app, port=self.port, log_level="critical", lifespan="off", http="h11", ws="websockets-sansio"
            )
            self._uvicorn = uvicorn.Server(config)  # leaves signals alone outside the main thread
            serving = asyncio.create_task(self._uvicorn.serve())
            while not self._uvicorn.started and not serving.done():
                await asyncio.sleep(0.005)
            self._up.set()
            await serving
            if not self._restart:
                return
            self.log.append("restarted")


def _cut(status):
    """An answer that breaks off: the client cannot know whether its request was carried out."""

    async def nothing():
        yield b""

    return StreamingResponse(nothing(), status, {"Content-Length": "20"})
