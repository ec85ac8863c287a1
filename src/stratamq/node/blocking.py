"""The embedded node without await: each method of the asyncio face, run on a loop in a thread.

Nothing is written twice: `wait_for(AsyncTopic.read)` is `read` with its arguments, types and words,
for callers that would rather block.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from stratamq.adapter.drivers import DriverFactory
from stratamq.model.errors import Closed
from stratamq.model.topic import Topic as TopicInfo
from stratamq.model.topic import TopicConfig
from stratamq.node.embedded import AsyncNode, AsyncTopic
from stratamq.node.follow import Follower
from stratamq.node.messages import Message

P = ParamSpec("P")
R = TypeVar("R")
Face = TypeVar("Face")


class LoopThread:
    """An event loop that runs in a thread of its own until `stop`."""

    def __init__(self) -> None:
        self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
        self._thread = threading.Thread(target=self._run, name="stratamq-node", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def running(self) -> bool:
        return not self._loop.is_closed()

    @property
    def is_forked(self) -> bool:
        """Threads do not come along when a process forks: nothing would ever answer here."""
        return os.getpid() != self._pid

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Wait for it here while it runs there. Whatever interrupts the wait cancels the work."""
        if not self.running:
            work.close()
            raise Closed("the node is closed")
        if self.is_forked:
            work.close()
            raise Closed(
                "the node was opened in another process, which this one is a fork of: open it in"
                " the process that uses it, or send to it over Kafka"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Abandoned iterators are ended and the loop's own threads with it."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def wait_for(
    method: Callable[Concatenate[Face, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Make a blocking method of an asynchronous one."""

    @functools.wraps(method)
    def blocking(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._face, *args, **kwargs))  # type: ignore[no-any-return]

    return blocking


def wait_for_topic(
    method: Callable[Concatenate[AsyncNode, P], Coroutine[Any, Any, AsyncTopic]],
) -> Callable[Concatenate[Any, P], BlockingTopic]:
    """Likewise, and the topic blocks too."""

    @functools.wraps(method)
    def blocking(self: Node, /, *args: P.args, **kwargs: P.kwargs) -> BlockingTopic:
        return BlockingTopic(self._loop, self._loop.run(method(self._face, *args, **kwargs)))

    return blocking


def wait_for_topics(
    method: Callable[Concatenate[AsyncNode, P], Coroutine[Any, Any, list[AsyncTopic]]],
) -> Callable[Concatenate[Any, P], list[BlockingTopic]]:
    @functools.wraps(method)
    def blocking(self: Node, /, *args: P.args, **kwargs: P.kwargs) -> list[BlockingTopic]:
        topics = self._loop.run(method(self._face, *args, **kwargs))
        return [BlockingTopic(self._loop, topic) for topic in topics]

    return blocking


def iterate(
    method: Callable[Concatenate[AsyncTopic, P], Follower],
) -> Callable[Concatenate[Any, P], Iterator[Message]]:
    """`AsyncTopic.follow` for callers that block. Threads meet once per batch, not per message."""

    @functools.wraps(AsyncTopic.follow)
    def blocking(self: BlockingTopic, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Message]:
        follower = method(self._face, *args, **kwargs)
        try:
            while batch := self._loop.run(follower.next_batch()):
                for message in batch:
                    yield message
                    follower.done(message)
        finally:
            with contextlib.suppress(Closed):
                self._loop.run(follower.leave())

    return blocking


class BlockingTopic:
    """See AsyncTopic. May be used from any thread."""

    def __init__(self, loop: LoopThread, face: AsyncTopic) -> None:
        self._loop = loop
        self._face = face

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    @property
    def name(self) -> str:
        return self._face.name

    @property
    def info(self) -> TopicInfo:
        return self._face.info

    @property
    def partitions(self) -> int:
        return self._face.partitions

    @property
    def config(self) -> TopicConfig:
        return self._face.config

    @property
    def storage(self) -> str:
        return self._face.storage

    produce = wait_for(AsyncTopic.produce)
    produce_many = wait_for(AsyncTopic.produce_many)
    read = wait_for(AsyncTopic.read)
    read_by_key = wait_for(AsyncTopic.read_by_key)
    read_by_tag = wait_for(AsyncTopic.read_by_tag)
    read_from_time = wait_for(AsyncTopic.read_from_time)
    offset_at = wait_for(AsyncTopic.offset_at)
    offsets = wait_for(AsyncTopic.offsets)
    follow = iterate(AsyncTopic.follower)
    commit = wait_for(AsyncTopic.commit)
    committed = wait_for(AsyncTopic.committed)
    delete_by_key = wait_for(AsyncTopic.delete_by_key)
    delete_by_offset = wait_for(AsyncTopic.delete_by_offset)
    trim = wait_for(AsyncTopic.trim)
    add_partitions = wait_for(AsyncTopic.add_partitions)
    alter_config = wait_for(AsyncTopic.alter_config)


class Node:
    """See AsyncNode. Started when made; `with` closes it, or `close`. May be used from any
    thread."""

    def __init__(
        self,
        path: Path | str,
        *,
        storages: Mapping[str, DriverFactory] | None = None,
        **settings: object,
    ) -> None:
        self._loop = LoopThread()
        try:
            self._face = self._loop.run(_started(path, storages, settings))
        except BaseException:
            self._loop.stop()
            raise

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Everything that was acknowledged is stored; the folder is free again. Twice is
        harmless."""
        if self._loop.running and not self._loop.is_forked:
            try:
                self._loop.run(self._face.close())
            finally:
                self._loop.stop()

    @property
    def path(self) -> Path:
        return self._face.path

    create_topic = wait_for_topic(AsyncNode.create_topic)
    topic = wait_for_topic(AsyncNode.topic)
    topics = wait_for_topics(AsyncNode.topics)
    delete_topic = wait_for(AsyncNode.delete_topic)
    groups = wait_for(AsyncNode.groups)
    delete_group = wait_for(AsyncNode.delete_group)


async def _started(
    path: Path | str, storages: Mapping[str, DriverFactory] | None, settings: dict[str, object]
) -> AsyncNode:
    """Made on the loop it will run on."""
    return await AsyncNode(path, storages=storages, **settings)
