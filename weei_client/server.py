"""One server over HTTP: which answers are final, and which requests are made again (docs/protocol.md, "Errors")."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from weei_client.clock import Clock

T = TypeVar("T")


class Problem(Exception):
    """A final answer: the same request would be refused again."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.body = body
        self.code = str(body.get("code") or f"http_{status}")
        self.title = str(body.get("title") or f"The server answered with status {status}.")
        super().__init__(self.title)


class Unreachable(Exception):
    """No usable answer; the same request may be made again, after `after` seconds if the server said so."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


def retry_delays(first: float, last: float) -> Iterator[float]:
    """Full jitter: any time up to a bound that doubles, so that many peers do not return at once."""
    bound = first
    while True:
        yield random.uniform(0, bound)
        bound = min(2 * bound, last)


class Silent(Exception):
    """The server was not heard for as long as its caller wanted to wait."""


class Server:
    """Sends requests with one token, and remembers when the server was last heard, by whatever way.

    `program` is its name and version, for the server's log. A peer says that it belongs to the server's own origin
    (docs/protocol.md); a program of a coordinator belongs to no page and says nothing.
    """

    def __init__(
        self,
        origin: str,
        *,
        program: str,
        clock: Clock,
        first_retry: float,
        last_retry: float,
        on_trouble: Callable[[str, float], None] = lambda reason, delay: None,
        says_origin: bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.origin = origin
        self._clock = clock
        self._retry = (first_retry, last_retry)
        self._on_trouble = on_trouble
        self._heard = (clock.monotonic(), clock.elapsed())
        self._gap = 0.0
        headers = {"User-Agent": program} | ({"Origin": origin} if says_origin else {})
        timeout = httpx.Timeout(30, connect=10, write=60)
        self._client = httpx.AsyncClient(base_url=origin, headers=headers, timeout=timeout, transport=transport)

    async def close(self) -> None:
        await self._client.aclose()

    def authorize(self, token: str) -> None:
        self._client.headers["Authorization"] = f"Bearer {token}"

    def heard(self) -> None:
        self._gap = self.gap()
        self._heard = (self._clock.monotonic(), self._clock.elapsed())

    def waited(self) -> float:
        """Seconds this program waited for a sign of the server; sleep of the machine is not waiting."""
        return self._clock.monotonic() - self._heard[0]

    def gap(self) -> float:
        """The longest silence since `mend_gap`, sleep of the machine included: a lease may have ended in it.

        A frame that waited in a buffer during the sleep ends a silence, but tells nothing new.
        """
        return max(self._gap, self._clock.elapsed() - self._heard[1])

    def mend_gap(self) -> None:
        self._gap = 0.0

    def delays(self) -> Iterator[float]:
        return retry_delays(*self._retry)

    def trouble(self, reason: str, delay: float) -> None:
        self._on_trouble(reason, delay)

    async def json(self, method: str, path: str, body: object = None) -> Any:
        """Ask until there is an answer."""
        return await self.until_answered(lambda: self.json_once(method, path, body))

    async def json_once(self, method: str, path: str, body: object = None) -> Any:
        response = await self.send(method, path, **({} if body is None else {"json": body}))
        try:
            return response.json()
        except ValueError:
            raise Unreachable(f"{path} answered with something that is not JSON") from None

    async def until_answered(self, request: Callable[[], Awaitable[T]]) -> T:
        delays = self.delays()
        while True:
            try:
                return await request()
            except Unreachable as trouble:
                delay = next(delays) if trouble.after is None else trouble.after
                self.trouble(str(trouble), delay)
                await asyncio.sleep(delay)

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request, once. Raises `Problem` or `Unreachable`."""
        async with self.stream(method, path, **options) as response:
            try:
                await response.aread()
            except httpx.TransportError as error:
                raise Unreachable(_describe(error)) from error
            return response

    @asynccontextmanager
    async def stream(self, method: str, path: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """One request whose body the caller reads. Raises `Problem` or `Unreachable`."""
        request = self._client.build_request(method, path, **options)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise Unreachable(_describe(error)) from error
        try:
            await self._check(response)
            yield response
        finally:
            await response.aclose()

    async def _check(self, response: httpx.Response) -> None:
        """What a proxy says of a server that is away is no sign of the server."""
        try:
            await _check(response)
        except Problem:
            self.heard()
            raise
        self.heard()


async def unless_silent(server: Server, seconds: float, work: Awaitable[T]) -> T:
    """Await `work`, but raise `Silent` once the server was not heard for so long."""
    asked = asyncio.ensure_future(work)
    try:
        while not asked.done():
            left = seconds - server.waited()
            if left <= 0:
                raise Silent(f"{server.origin} did not answer for {seconds:g} seconds")
            await asyncio.wait([asked], timeout=left)
        return asked.result()
    finally:
        if not asked.done():
            asked.cancel()
            await asyncio.wait([asked])


async def _check(response: httpx.Response) -> None:
    """Raises for all but a success."""
    status = response.status_code
    if status < 300:
        return
    try:
        await response.aread()
    except httpx.TransportError as error:
        raise Unreachable(_describe(error)) from error
    after = _seconds(response.headers.get("Retry-After"))
    problem = response.headers.get("Content-Type", "").startswith("application/problem+json")
    if status in (429, 503) and (after is not None or not problem):
        raise Unreachable(f"the server answered {status}", after)
    if status >= 500 and not problem:
        raise Unreachable(f"the server answered {status}")
    if status < 400:
        raise Problem(status, {"title": f"The server sends this program on to {response.headers.get('Location')}."})
    try:
        body = response.json() if problem else {}
    except ValueError:
        body = {}
    raise Problem(status, body if isinstance(body, dict) else {})


def _seconds(header: str | None) -> float | None:
    """`Retry-After` in seconds; its other form, a date, is left to the usual delays."""
    return float(header) if header is not None and header.isdecimal() else None


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
