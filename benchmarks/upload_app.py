"""The least that a server on Weei's stack can do with an upload: append each body to a file as it comes."""

import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILE = os.environ["UPLOAD_FILE"]


async def put(request: Request) -> Response:
    with open(FILE, "ab") as file:
        async for piece in request.stream():
            file.write(piece)
    return Response(status_code=204)


app = Starlette(routes=[Route("/", put, methods=["PUT"])])
