"""The node as attackers see it, and the list of their attacks."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.attack.bombs import produce, small
from tests.attack.raw import RawClient, connected

MIB = 1 << 20
WIDE, STORED, FILLED = "wide", "stored", "filled"
"""A topic of many partitions in memory, one on disk that is written to, and one to read from."""

WIDE_PARTITIONS, STORED_PARTITIONS, FILLED_BATCHES = 1000, 4, 8

Attack = Callable[["Target"], None]
ATTACKS: dict[str, Attack] = {}


def attack(act: Attack) -> Attack:
    """Put it into the list. It raises what must not happen; a connection that the node may close
    is one whose attack says so."""
    ATTACKS[act.__name__] = act
    return act


class Target:
    """One for each attacker; `run` tells the names of one run from those of all others."""

    _numbers = itertools.count()

    def __init__(self, host: str, port: int, chance: Random, run: str) -> None:
        self.chance = chance
        self._host, self._port, self._run = host, port, run
        self.wide_id = bytes(16)
        self.over = threading.Event()
        """Set when the time of the run is over: attackers that hold on let go."""

    def connected(self) -> Any:
        return connected(self._host, self._port)

    @contextmanager
    def crowd(self, count: int) -> Iterator[list[RawClient]]:
        with ExitStack() as open_:
            yield [open_.enter_context(self.connected()) for _ in range(count)]

    def ask(self, request: object, version: int | None = None) -> Any:
        with self.connected() as client:
            return client.asked(request, version)

    def new(self, word: str) -> str:
        """A name that was not used before."""
        return f"{word}-{self._run}-{next(self._numbers)}"

    def hold(self, seconds: float) -> None:
        self.over.wait(seconds)

    # -- topics --------------------------------------------------------------------------------

    def create(self, *names: str, partitions: int = 1, **config: str) -> list[ErrorCode]:
        configs = [
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in config.items()
        ]
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=configs,
            )
            for name in names
        ]
        answer = self.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        return [ErrorCode(one.error_code) for one in answer.topics]

    def delete(self, *names: str) -> None:
        topics = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in names]
        self.ask(DeleteTopicsRequest(topics=topics, timeout_ms=30_000))

    def prepare(self) -> None:
        """What attacks are about: made once, before the first of them."""
        self.create(WIDE, partitions=WIDE_PARTITIONS, storage_type="EngineMemory")
        self.create(STORED, partitions=STORED_PARTITIONS)
        self.create(FILLED)
        self.ask(produce(*[small(bytes(900_000))] * FILLED_BATCHES, topic=FILLED), 9)


def refused(codes: list[int], *allowed: ErrorCode) -> None:
    """All of them are errors, and of these kinds where kinds are named."""
    assert codes, "nothing was answered"
    for code in codes:
        assert code != 0, "taken for good"
        assert code != ErrorCode.UNKNOWN_SERVER_ERROR
        assert not allowed or code in allowed, ErrorCode(code)
