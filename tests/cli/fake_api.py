"""As much of the HTTP API as the command line asks for, in memory; it can be told to misbehave."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid

import httpx

URL = "https://weei.example"
TOKEN = "weei_pat_" + "a" * 43
JOB = {
    "status": "ready",
    "modelId": "toy",
    "modelName": "Toy model",
    "round": 0,
    "createdAt": 1_764_000_000_000,
    "completedAt": None,
    "error": None,
    "waitingFor": "Nobody takes part yet.",
    "info": {"version": "1.0.0"},
    "settings": {"epochs": 2},
    "incomplete": False,
    "validating": [],
    "module": {"fileName": "toy.wasm", "bytes": 8, "sha256": hashlib.sha256(b"\0asm1234").hexdigest()},
    "progress": {"datasetEpoch": 0, "plannedEpochs": 2, "remainingChunks": 4, "totalChunks": 4, "running": False},
    "participants": {},
    "slots": [],
    "peers": [],
}
WEIGHTS = b"\0\0\x80\x3f" * 64


def checkpoint(number, weights=WEIGHTS, **more):
    return {
        "artifact": {"round": number, "sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)},
        "metrics": {"values": {"loss": 1 / (number + 1)} if number else {}, "examplesProcessed": 8},
        "validation": "none",
        "createdAt": 1_764_000_000_000 + number,
        **more,
    }


def problem(status, code, title="Refused.", **more):
    body = {"type": f"/help/errors#{code}", "title": title, "status": status, "code": code, **more}
    return httpx.Response(status, json=body, headers={"Content-Type": "application/problem+json"})


class FakeApi:
    """`answers` replaces the answer to `METHOD path`: a response, or a list of them that is used up one by one."""

    def __init__(self):
        self.jobs = []
        self.checkpoints = {}
        self.participants, self.invitations, self.events = [], [], []
        self.files = {}
        self.answers = {}
        self.asked = []
        self.bodies = []
        self.held, self.uploads, self.sent = set(), {}, []
        self.cut_after = None
        self.draft = None

    def add(self, name="Toy job", job_id=None, **more):
        job = {**JOB, "id": job_id or str(uuid.uuid4()), "name": name, **more}
        self.jobs.append(job)
        self.checkpoints[job["id"]] = [checkpoint(0)]
        return job

    async def __call__(self, request):
        await request.aread()
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        assert "origin" not in request.headers and "cookie" not in request.headers
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "signed_out", "This access token is unknown.")
        planned = self.answers.get(f"{request.method} {request.url.path}")
        if isinstance(planned, list):
            planned = planned.pop(0) if planned else None
        if isinstance(planned, Exception):
            raise planned
        if planned is not None:
            return planned
        if request.url.path.startswith("/bytes/"):
            return self.bytes(request)
        body = json.loads(request.content) if request.content else None
        self.bodies.append(body)
        return self.json(request.method, request.url.path, request.url.params, body)

    def json(self, method, path, query, body):
        if path == "/api/v1/site":
            return httpx.Response(200, json={"user": "alice"})
        if path == "/api/v1/site/sign-out":
            return httpx.Response(204)
        if path == "/api/v1/artifacts/held":
            return httpx.Response(200, json={"held": sorted(self.held & set(body["hashes"]))})
        if path == "/api/v1/jobs" and method == "POST":
            self.request = body
            return httpx.Response(202, json=self._draft("queued"))
        if path == "/api/v1/jobs":
            return self.page(path, self.jobs, query)
        if path.startswith("/api/v1/drafts/"):
            return httpx.Response(200, json=self.draft or self._draft("done", jobId=self.add("Made")["id"]))
        found = re.fullmatch(r"/api/v1/jobs/([^/]+)(/.*)?", path)
        job = next((job for job in self.jobs if found and job["id"] == found[1]), None)
        if job is None:
            return problem(404, "not_found")
        return self.of_job(method, job, found[2] or "", query, body)

    def of_job(self, method, job, rest, query, body):
        if rest == "" and method == "DELETE":
            self.jobs.remove(job)
            return httpx.Response(204)
        if rest == "/settings":
            job["settings"] = {**job["settings"], **body}
        if rest in ("", "/settings", "/start", "/pause", "/resume", "/finish"):
            return httpx.Response(200, json=job)
        if rest == "/checkpoints":
            return self.page(f"/api/v1/jobs/{job['id']}{rest}", self.checkpoints[job["id"]][::-1], query)
        if number := re.fullmatch(r"/checkpoints/(\d+)", rest):
            rows = [row for row in self.checkpoints[job["id"]] if row["artifact"]["round"] == int(number[1])]
            return httpx.Response(200, json=rows[0]) if rows else problem(404, "not_found", "No such checkpoint.")
        if rest == "/participants":
            return self.page(f"/api/v1/jobs/{job['id']}{rest}", self.participants, query)
        if rest == "/validation":
            return httpx.Response(200, json=self.checkpoints[job["id"]][-1])
        if rest == "/invitations" and method == "POST":
            link = {"id": str(uuid.uuid4()), "uses": 0, "maxUses": body["uses"], "expiresAt": 1_764_000_000_000}
            self.invitations.append({**link, "state": "open"})
            return httpx.Response(201, json={**link, "url": f"{URL}/join/secret/"})
        if rest.startswith("/invitations"):
            return self.page(f"/api/v1/jobs/{job['id']}{rest}", self.invitations, query)
        if rest == "/log":
            after, before = int(query.get("after", 0)), int(query.get("before", 10**9))
            rows = [row for row in self.events if after < row["id"] < before]
            return httpx.Response(200, json=rows[-int(query["limit"]) :])
        if rest in self.files:
            return httpx.Response(200, content=self.files[rest])
        return problem(404, "not_found")

    def page(self, path, rows, query):
        start, limit = int(query.get("cursor", 0)), int(query.get("limit", 100))
        further = start + limit
        link = {"Link": f'<{path}?limit={limit}&cursor={further}>; rel="next"'} if further < len(rows) else {}
        return httpx.Response(200, json=rows[start:further], headers=link)

    def _draft(self, state, **more):
        base = {"draftId": "d", "state": state, "step": "Checking", "done": 1, "total": 3, "error": None, "code": None}
        return {**base, "field": None, "jobId": None, **more}

    # --- bytes ---

    def bytes(self, request):
        if request.url.path.startswith("/bytes/uploads"):
            return self.upload(request)
        content = self.files.get(request.url.path)
        if content is None:
            return problem(404, "not_found", "There is nothing at this address.")
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        start, status = 0, 200
        if "range" in request.headers and request.headers.get("if-range", etag) == etag:
            start, status = int(re.fullmatch(r"bytes=(\d+)-", request.headers["range"])[1]), 206
        rest = content[start:]
        if self.cut_after is not None:
            cut, self.cut_after = self.cut_after, None
            headers = {"ETag": etag, "Content-Length": str(len(rest))}
            return httpx.Response(status, content=_cut(rest, cut), headers=headers)
        return httpx.Response(status, content=rest, headers={"ETag": etag})

    def upload(self, request):
        if request.method == "POST":
            labels = dict(pair.split(" ") for pair in request.headers["upload-metadata"].split(","))
            labels = {key: base64.b64decode(value).decode() for key, value in labels.items()}
            upload_id = f"/bytes/uploads/{len(self.uploads)}"
            self.uploads[upload_id] = [labels, int(request.headers["upload-length"]), b""]
        else:
            upload_id = request.url.path
        upload = self.uploads[upload_id]
        upload[2] += request.content
        if request.content and self.cut_after is not None:
            self.cut_after = None
            raise httpx.ReadError("cut before the answer")
        labels, length, content = upload
        if len(content) == length:
            assert hashlib.sha256(content).hexdigest() == labels["sha256"] and labels["kind"] == "file"
            self.held.add(labels["sha256"])
            self.sent.append(labels["filename"])
        status = {"POST": 201, "HEAD": 200, "PATCH": 204}[request.method]
        return httpx.Response(status, headers={"Location": upload_id, "Upload-Offset": str(len(content))})


async def _cut(content, after):
    yield content[:after]
    raise httpx.ReadError("cut")
