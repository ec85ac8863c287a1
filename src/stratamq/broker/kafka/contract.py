"""How a family of Kafka APIs is written, and what it may use.

A family (`produce`, `fetch`, `groups`, ...) is a class that is given `Services` and lists its
handlers by request class. A handler takes a decoded request and the caller and returns the
response message; `KafkaBroker` puts the families together, and what they handle is exactly what
`ApiVersions` advertises.

Failures: a handler turns our errors into codes per topic, partition or group wherever the response
has a field for them (`stratamq.broker.kafka.errors.code_of`). What it raises anyway is a bug, or
means the connection cannot go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.adapter.offsets import OffsetManager
from stratamq.adapter.topics import TopicManager
from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.meta.configs import ConfigCacheManager
from stratamq.meta.service import MetaService
from stratamq.meta.shards import StorageCacheManager
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.clock import Clock
from stratamq.model.config import NodeConfig
from stratamq.model.dataclass import dataclass
from stratamq.model.entropy import Entropy
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import Versions

if TYPE_CHECKING:
    from stratamq.broker.kafka.partitions import Partitions

ANONYMOUS = "User:ANONYMOUS"


class DiskUsage(Protocol):
    """Bytes of a file system."""

    @property
    def total(self) -> int: ...

    @property
    def free(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything below the broker, already started."""

    node_id: NodeId
    config: NodeConfig
    configs: ConfigCacheManager
    clock: Clock
    entropy: Entropy
    disk_usage: Callable[[Path], DiskUsage]
    meta: MetaService
    topics: TopicManager
    broker_cache: BrokerCacheManager
    storage_cache: StorageCacheManager
    drivers: StorageDriverManager
    offsets: OffsetManager
    partitions: Partitions
    answers: AnswerBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that sent a request: its principal, its address, and its version of the API."""

    version: int
    client_id: str = ""
    principal: str = ANONYMOUS
    host: str = "127.0.0.1"
    connection: int = 0


Handler = Callable[[Any, Caller], Awaitable[Any]]
"""Request and caller in, response out; None where the protocol sends no response (acks=0)."""


Answered = Callable[[Any], None]
"""Takes the response."""

Cancel = Callable[[], None]
"""Ends work that was begun, if it has not ended; its response is not wanted any more."""

Beginner = Callable[[Any, Caller, Answered], Cancel | None]
"""A handler without a coroutine: begins the work and calls `Answered` with the response, on the
event loop and perhaps at once. None: the handler proper is to be called, next of all."""


def nothing() -> None:
    """Cancels work that goes on whether its response is wanted or not."""


@dataclass(frozen=True, slots=True)
class Handled:
    """A handler and, where not all versions that the codec knows are served, those that are. An
    API that is called very often may also have a `beginner`, for its ordinary requests."""

    handler: Handler
    versions: Versions | None = None
    beginner: Beginner | None = None


class Family(ABC):
    """A few APIs that belong together."""

    @abstractmethod
    def handlers(self) -> Mapping[type, Handled]:
        """By request class."""

    async def start(self) -> None:
        """Begin what the family does beside its requests; most do nothing."""
        return

    async def stop(self) -> None:
        """End it. No request is under way any more."""
        return
