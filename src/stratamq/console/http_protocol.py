"""uvicorn's side of a connection. Imported by the first one: see `http.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""

Ended = Callable[[Exception | None], None]

HEAD_BYTES_MAX = 16 << 10
"""Largest head of a request. Above: 400."""


class HttpProtocol(H11Protocol):
    """As uvicorn has it; `ended` is called when the connection is gone."""

    def __init__(self, config: Config, ended: Ended) -> None:
        super().__init__(config, ServerState(), {})
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._ended(exc)


def protocol_maker(app: App, idle_s: float) -> Callable[[Ended], HttpProtocol]:
    config = Config(
        cast(Any, app),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what strangers send is no news
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(idle_s),
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    config.load()
    return partial(HttpProtocol, config)
