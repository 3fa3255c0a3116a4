"""The least that a websocket server on Weei's stack can do: send back what came."""

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)


app = Starlette(routes=[WebSocketRoute("/", echo)])
