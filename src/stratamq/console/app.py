"""The pages of the console. Imported when the first client asks for one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from stratamq.console.exposition import CONTENT_TYPE
from stratamq.console.health import Health

NEVER_STORED = {"Cache-Control": "no-store"}


def make_app(health: Health, collect: Callable[[], Awaitable[str]]) -> Starlette:
    async def healthz(request: Request) -> Response:
        """The process lives and its event loop turns, or there would be no answer."""
        return PlainTextResponse("ok\n", headers=NEVER_STORED)

    async def readyz(request: Request) -> Response:
        missing = health.missing
        body = {"ready": not missing, "missing": missing}
        return JSONResponse(body, 503 if missing else 200, headers=NEVER_STORED)

    async def metrics(request: Request) -> Response:
        headers = NEVER_STORED | {"Content-Type": CONTENT_TYPE}
        return Response(await collect(), headers=headers)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
        ]
    )
