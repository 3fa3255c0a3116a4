"""The calls of docs/http-api.md that a coordinator's command line makes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from weei_cli.outcomes import Failed, failure_of
from weei_client.server import Problem, Server, Silent, unless_silent
from weei_core.errors import WeeiError

T = TypeVar("T")
LARGEST_PAGE = 500
SHOWN_CANDIDATES = 10


class Api:
    """`patience` is for how many seconds of silence the server is asked again."""

    def __init__(self, server: Server, patience: float) -> None:
        self.server = server
        self._patience = patience

    async def wait_for(self, work: Awaitable[T]) -> T:
        """The result, or `Failed` with the server's own sentence."""
        try:
            return await unless_silent(self.server, self._patience, work)
        except (Problem, WeeiError) as error:
            raise failure_of(error) from None
        except Silent as error:
            raise Failed(f"{error}; giving up.", code="unreachable") from None

    async def call(self, method: str, path: str, body: object = None) -> Any:
        return (await self._send(method, path, body)).json()

    async def get(self, path: str, **query: object) -> Any:
        return await self.call("GET", _address(path, query))

    async def delete(self, path: str) -> None:
        await self._send("DELETE", path)

    async def delete_token(self) -> None:
        """The token of these calls ends."""
        await self._send("POST", "/api/v1/site/sign-out")

    async def _send(self, method: str, path: str, body: object = None) -> httpx.Response:
        options = {} if body is None else {"json": body}
        return await self.wait_for(self.server.until_answered(lambda: self._once(method, path, options)))

    async def _once(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        response = await self.server.send(method, path, **options)
        if response.status_code != 204 and "json" not in response.headers.get("Content-Type", ""):
            raise Failed(
                f"{self.server.origin} does not answer as a Weei server does; is the address right?", code="not_weei"
            )
        return response

    async def page(self, path: str, **query: object) -> tuple[list[dict[str, Any]], str | None]:
        """One page of a list, and the `cursor` of the next."""
        response = await self._send("GET", _address(path, query))
        further = parse_qs(urlsplit(response.links.get("next", {}).get("url", "")).query)
        return response.json(), further.get("cursor", [None])[0]

    async def pages(self, path: str, **query: object) -> AsyncIterator[dict[str, Any]]:
        """All rows of a list, page by page."""
        cursor = None
        while True:
            rows, cursor = await self.page(path, **query, limit=LARGEST_PAGE, cursor=cursor)
            for row in rows:
                yield row
            if cursor is None:
                return

    async def job_named(self, name: str) -> dict[str, Any]:
        """The job whose id begins with this, or whose name it is. Raises `Failed` when that is not exactly one."""
        found: dict[str, dict[str, Any]] = {}
        prefix = name.lower()
        is_prefix = re.fullmatch("[0-9a-f-]{1,36}", prefix) is not None
        async for job in self.pages("/api/v1/jobs"):
            if job["name"] == name or (is_prefix and job["id"].startswith(prefix)):
                found[job["id"]] = job
        if len(found) == 1:
            return next(iter(found.values()))
        if not found:
            raise Failed(f"You have no job whose name is {name!r} or whose id begins with it.", code="not_found")
        shown = [f"{job['id']} ({job['name']}, {job['status']})" for job in found.values()][:SHOWN_CANDIDATES]
        more = len(found) - len(shown)
        raise Failed(
            f"{name!r} may be {len(found)} jobs; give more of the id: {'; '.join(shown)}"
            f"{f'; and {more} more' if more else ''}.",
            code="ambiguous",
            candidates=list(found),
        )

    async def checkpoint(self, job_id: str, round_number: int | None) -> dict[str, Any]:
        """That of the round, or the newest."""
        path = f"/api/v1/jobs/{job_id}/checkpoints"
        found = await (self.get(path, limit=1) if round_number is None else self.get(f"{path}/{round_number}"))
        newest: dict[str, Any] = found[0] if isinstance(found, list) else found
        return newest


def _address(path: str, query: dict[str, object]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
