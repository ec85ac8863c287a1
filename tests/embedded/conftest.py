"""One suite for both faces of the embedded node: the blocking one is awaited in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import stratamq

SMALL = {"io_workers": 1, "reader_threads": 1}


class Awaited:
    """A blocking node or topic with the manners of the other face."""

    def __init__(self, inner: stratamq.Node | stratamq.Topic) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        async def call(*args: object, **kwargs: object) -> object:
            return _awaited(await asyncio.to_thread(found, *args, **kwargs))

        async def iterate(*args: object, **kwargs: object) -> AsyncIterator[object]:
            iterator = found(*args, **kwargs)
            try:
                while (item := await asyncio.to_thread(next, iterator, None)) is not None:
                    yield item
            finally:
                await asyncio.to_thread(iterator.close)

        return iterate if name == "follow" else call


def _awaited(answer: object) -> object:
    if isinstance(answer, stratamq.Topic):
        return Awaited(answer)
    if isinstance(answer, list):
        return [_awaited(one) for one in answer]
    return answer


Reopen = Callable[..., Any]


@pytest.fixture(params=["async", "sync"])
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reopen]:
    """Opens the test's node; called again, closes it first."""
    opened: list[Any] = []

    async def close() -> None:
        if opened:
            await opened.pop().close()

    async def open_again(**settings: Any) -> Any:
        await close()
        if request.param == "async":
            opened.append(await stratamq.aopen(tmp_path / "node", **{**SMALL, **settings}))
        else:
            blocking = await asyncio.to_thread(
                stratamq.open, tmp_path / "node", **{**SMALL, **settings}
            )
            opened.append(Awaited(blocking))
        return opened[-1]

    yield open_again
    await close()


@pytest.fixture
async def node(reopen: Reopen) -> Any:
    return await reopen()
