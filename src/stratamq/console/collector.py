"""Reads the counters of a node when its metrics are asked for.

What is quick to read is read each time, a few milliseconds at a time, so that clients are not held
up. The bytes of all segments and the lag of all groups are not quick: they are summed up in the
background, at most every `SUMMED_EVERY_S`, and only while metrics are asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from stratamq.adapter.offsets import OffsetManager
from stratamq.broker.kafka.contract import DiskUsage
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.turns import paced
from stratamq.console import metrics
from stratamq.console.exposition import braced
from stratamq.console.health import STORAGE, Health
from stratamq.console.pauses import Pauses
from stratamq.engine.engine import StorageEngine
from stratamq.engine.shard import Shard
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.config import NodeConfig
from stratamq.model.counters import Durations, TopicTraffic
from stratamq.model.damage import findings_count
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import Closed, StrataError
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import ShardName, TopicId
from stratamq.server.kafka.server import KafkaServer
from stratamq.tiering.mover.progress import MoverStatus
from stratamq.wire.kafka.protocol import APIS

logger = logging.getLogger(__name__)

OTHER_TOPICS = "(other topics)"
"""No topic may have this name. Its row sums up those above `metrics.topics.max`."""

SUMMED_EVERY_S = 10.0
SUMMED_AT_ONCE = 64
"""Shards whose segments one call of a reader thread adds up."""

EMPTY = "Empty"
"""Kafka's name for the state of a group that all members have left; it is not in memory."""

NO_TRAFFIC = TopicTraffic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The parts of a node that count. The Kafka front's are there when it has started."""

    config: NodeConfig
    version: str
    health: Health
    pauses: Pauses
    disk_usage: Callable[[Path], DiskUsage]
    engines: Mapping[StorageType, StorageEngine]
    topics: BrokerCacheManager
    offsets: OffsetManager
    server: Callable[[], KafkaServer | None]
    groups: Callable[[], GroupCoordinator | None]
    history: Callable[[], MoverStatus | None]


class MetricsCollector:
    """`text` may be asked for at any time, also while the node starts or stops."""

    def __init__(self, sources: Sources) -> None:
        self._from = sources
        self._started_s = time.time() - time.monotonic() + _started_at_s()
        self._log_bytes: Mapping[TopicId, int] = {}
        self._lag: Mapping[tuple[str, ...], int] = {}
        self._lag_omitted = self._left_groups = 0
        self._summed_at_s = 0.0
        self._summing: asyncio.Task[None] | None = None

    async def text(self) -> str:
        """Every metric whose owner has started."""
        process = await asyncio.to_thread(self._process)  # files of /proc, and of the disk
        await self._look_at_sums()
        parts = [part async for part in self._parts()]
        return "".join([*process, *parts])

    async def _parts(self) -> AsyncIterator[str]:
        sources = self._from
        yield metrics.READY.value(int(not sources.health.missing))
        yield metrics.DAMAGE.value(findings_count())
        yield metrics.LOOP_LAG.histograms({(): sources.pauses.loop_lag})
        yield metrics.GC_PAUSES.histograms({(): sources.pauses.collections})
        for part in _history(sources.history() or MoverStatus()):
            yield part
        if not sources.health.has_started(STORAGE):
            return
        for part in self._storage():
            yield part
        async for part in self._topics():
            yield part
        if (server := sources.server()) is not None:
            for part in _front(server):
                yield part
        if (coordinator := sources.groups()) is not None:
            async for part in self._groups(coordinator):
                yield part

    # -- the process ---------------------------------------------------------------------------

    def _process(self) -> list[str]:
        """Blocks for a moment."""
        config = self._from.config
        build = (self._from.version, platform.python_version(), str(config.number("node.id")))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found = [
            metrics.BUILD_INFO.rows({build: 1}),
            metrics.START_TIME.value(self._started_s),
            metrics.CPU.value(time.process_time()),
            metrics.MEMORY.value(pages * resource.getpagesize()),
            metrics.FILES_OPEN.value(len(os.listdir("/proc/self/fd"))),  # noqa: PTH208
            metrics.FILES_MAX.value(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ]
        try:
            usage = self._from.disk_usage(config.data_dir)
        except OSError:  # the folder is not there yet, or gone
            return found
        return [*found, metrics.DISK_FREE.value(usage.free), metrics.DISK_SIZE.value(usage.total)]

    # -- storage and topics --------------------------------------------------------------------

    def _storage(self) -> Iterable[str]:
        shards: dict[tuple[str, ...], int] = {}
        syncs = Durations()
        for kind, engine in self._from.engines.items():
            try:
                unavailable = len(engine.unavailable_shards())
            except Closed:
                continue
            shards[kind.value, "open"] = len(engine.opened_shards())
            shards[kind.value, "closed"] = len(engine.unopened_shards())
            shards[kind.value, "unavailable"] = unavailable
            syncs = engine.syncs or syncs
        yield metrics.SHARDS.rows(shards)
        yield metrics.SYNCS.histograms({(): syncs})

    async def _topics(self) -> AsyncIterator[str]:
        topics = self._from.topics.topics()
        yield metrics.TOPICS.value(len(topics))
        named_max = self._from.config.number("metrics.topics.max")
        engines = list(self._from.engines.values())
        rows: list[tuple[str, tuple[int, ...]]] = []
        other = [0] * len(_BY_TOPIC)
        async for topic in paced(topics):
            traffic = NO_TRAFFIC
            for engine in engines:
                traffic = engine.traffic.get(topic.topic_id, traffic)
            log_bytes = self._log_bytes.get(topic.topic_id, 0)
            values = (
                *(traffic.records_in, traffic.bytes_in, traffic.offsets_out, traffic.bytes_out),
                log_bytes,
            )
            if len(rows) < named_max:
                rows.append((braced(("topic",), (topic.name,)), values))
            else:
                other = [sum(pair) for pair in zip(other, values, strict=True)]
        if len(topics) > named_max:
            rows.append((braced(("topic",), (OTHER_TOPICS,)), tuple(other)))
        async for at, metric in paced(enumerate(_BY_TOPIC)):
            yield metric.by_one_label([(labels, values[at]) for labels, values in rows])

    # -- groups --------------------------------------------------------------------------------

    async def _groups(self, coordinator: GroupCoordinator) -> AsyncIterator[str]:
        groups: Counter[tuple[str, ...]] = Counter({(EMPTY,): self._left_groups})
        members: Counter[tuple[str, ...]] = Counter()
        async for state in paced(list(coordinator.states.values())):
            name = (str(state.group.state),)
            groups[name] += 1
            members[name] += state.group.member_count
        yield metrics.GROUPS.rows(groups)
        yield metrics.GROUP_MEMBERS.rows(members)
        yield metrics.GROUP_LAG.rows(self._lag)
        yield metrics.GROUPS_OMITTED.value(self._lag_omitted)

    # -- what takes longer ---------------------------------------------------------------------

    async def _look_at_sums(self) -> None:
        """The first to ask waits for them, later ones get those of a moment ago. A node that is not
        ready has other things to do."""
        if self._from.health.missing:
            return
        is_first = not self._summed_at_s
        if self._summing is None and time.monotonic() - self._summed_at_s >= SUMMED_EVERY_S:
            self._summing = asyncio.create_task(self._sum_up(), name="metrics-sums")
        if is_first and self._summing is not None:
            await asyncio.shield(self._summing)

    async def _sum_up(self) -> None:
        try:
            self._log_bytes = await self._sum_log_bytes()
            await self._sum_lag()
        except (StrataError, RuntimeError) as error:  # threads that are gone: the node stops
            logger.debug("metrics are not summed up: %s", error)
        finally:
            self._summed_at_s, self._summing = time.monotonic(), None

    async def _sum_log_bytes(self) -> Mapping[TopicId, int]:
        found: Counter[TopicId] = Counter()
        for engine in list(self._from.engines.values()):
            shards = iter(list(engine.opened_shards().values()))
            while some := list(islice(shards, SUMMED_AT_ONCE)):
                found.update(await engine.executor.call(partial(_log_bytes, some)))
        return found

    async def _sum_lag(self) -> None:
        shards: dict[ShardName, Shard] = {}
        for engine in self._from.engines.values():
            shards |= engine.opened_shards()
        names = await self._from.offsets.groups()
        rows_max = self._from.config.number("metrics.groups.max")
        lag: dict[tuple[str, ...], int] = {}
        for name in list(islice(names, rows_max)):
            total = 0
            committed = await self._from.offsets.committed(name)
            async for shard, offset in paced(list(committed.items())):
                if (found := shards.get(shard)) is not None:
                    total += max(found.offsets().high_watermark - offset.offset, 0)
            lag[name,] = total
        self._lag, self._lag_omitted = lag, max(len(names) - rows_max, 0)
        if (coordinator := self._from.groups()) is not None:
            known = {*names, *coordinator.names()}
            self._left_groups = len(known - coordinator.states.keys())


_BY_TOPIC = (
    metrics.TOPIC_RECORDS_IN,
    metrics.TOPIC_BYTES_IN,
    metrics.TOPIC_OFFSETS_OUT,
    metrics.TOPIC_BYTES_OUT,
    metrics.TOPIC_LOG_BYTES,
)


def _front(server: KafkaServer) -> Iterable[str]:
    listener, refused = server.listener, server.refusals.snapshot()
    yield metrics.REQUESTS.histograms(
        {(APIS[key].name,): one for key, one in server.durations.items() if any(one.counts)}
    )
    yield metrics.REQUEST_ERRORS.rows(refused)
    yield metrics.SLOW_REQUESTS.rows({(api,): count for api, count in server.watch.slow.items()})
    yield metrics.BYTES_RECEIVED.value(listener.received_bytes)
    yield metrics.BYTES_SENT.value(listener.sent_bytes)
    yield metrics.CONNECTIONS.value(listener.connection_count)
    yield metrics.CONNECTIONS_ACCEPTED.value(listener.accepted)
    yield metrics.CONNECTIONS_REFUSED.value(listener.refused)
    yield metrics.TLS_FAILURES.value(listener.handshake_failures)
    yield metrics.AUTHENTICATION_FAILURES.value(server.logins.count)
    yield metrics.AUDIT_EVENTS.value(0 if server.audit is None else server.audit.written)
    yield metrics.AUDIT_LOST.value(0 if server.audit is None else server.audit.lost)


def _history(status: MoverStatus) -> Iterable[str]:
    totals = status.totals
    yield metrics.HISTORY_BACKLOG.value(status.waiting_bytes)
    yield metrics.HISTORY_SEGMENTS.value(status.waiting_segments)
    yield metrics.HISTORY_TROUBLED.value(status.troubled)
    yield metrics.HISTORY_MOVED.value(totals.log_bytes_moved)
    yield metrics.HISTORY_FAILURES.value(totals.failures)
    yield metrics.HISTORY_SUCCESS.value(max(totals.last_moved_ms, 0) / 1000)


def _log_bytes(shards: Iterable[Shard]) -> Counter[TopicId]:
    """On a reader thread: a sealed segment may have to read its sidecar."""
    found: Counter[TopicId] = Counter()
    for shard in shards:
        try:
            size = sum(segment.size_bytes for segment in shard.store.segments())
        except (OSError, StrataError):  # it was deleted meanwhile, or is damaged
            continue
        found[TopicId(shard.name.rpartition("_")[0])] += size
    return found


def _started_at_s() -> float:
    """When the process started, by the clock that only goes forward."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")
