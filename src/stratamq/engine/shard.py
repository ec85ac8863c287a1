"""One open shard, as its engine knows it while running."""

from __future__ import annotations

import logging
import threading
from asyncio import TimerHandle
from collections.abc import Callable

from stratamq.engine.commit import CommitProtocol
from stratamq.engine.contract import Acks, ShardSpec
from stratamq.engine.producers.shard import ShardProducers
from stratamq.engine.tiered import History, TieredReads, end_of
from stratamq.log.contract import Reads, SegmentInfo, ShardStore
from stratamq.model.counters import TopicTraffic
from stratamq.model.errors import ShardNotFound, ShardPoisoned
from stratamq.model.settings.topic import LONG_MAX, Flush
from stratamq.model.shard import ShardOffsets
from stratamq.model.types import (
    EARLIEST,
    FIRST_EPOCH,
    NO_EPOCH,
    LeaderEpoch,
    Offset,
    ShardName,
    TimestampMs,
)
from stratamq.wire.kafka.records import Compression

logger = logging.getLogger(__name__)

_CODECS = {
    "producer": Compression.NONE,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Shard:
    """The store of a shard and what is true about it beyond its bytes.

    `commits` says what is committed, and belongs to the event loop; `epoch` is changed by the
    shard's writer alone. `lock` is held by the writer: the I/O pool gives every shard one, and the
    lock keeps others away. `generation` counts the times the past was changed, so that a plan made
    before such a change is not carried out after it. `history` is what object storage has of the
    shard, `handed_out` the end of what was last given to the mover. Below `shown`, tables may show
    records early: marks of deleted ones are kept when compaction removes the records, and are in
    `taken_out` then, so that it is done once. `untimed` is the base of an active segment whose
    first batch has no timestamp, and since when housekeeping knows it. `traffic` is what all
    shards of its topic count in, from when the registry has the shard. `syncs` says whether an
    acknowledgement promises an fsync. The other fields are the config, taken apart once because
    they are asked for with every batch.
    """

    __slots__ = (
        "_poison",
        "_poisoned_names",
        "after_ms_max",
        "bytes_max",
        "commits",
        "compacts",
        "compression",
        "epoch",
        "expires",
        "flush",
        "flush_timer",
        "generation",
        "gone",
        "half_deleted",
        "handed_out",
        "history",
        "index_keys",
        "index_tags",
        "lane",
        "lock",
        "name",
        "poisoned",
        "policy",
        "producers",
        "replicated",
        "shown",
        "spec",
        "stamps",
        "store",
        "stored_bytes",
        "syncs",
        "taken_out",
        "traffic",
        "untimed",
        "watchers",
    )

    def __init__(self, spec: ShardSpec, store: ShardStore, high_watermark: Offset | None) -> None:
        self.name = spec.name
        self.lock = threading.Lock()
        self.lane = 0
        self.gone = self.half_deleted = False
        self.generation = 0
        self.history: History | None = None
        self.handed_out = self.shown = EARLIEST
        self.taken_out: set[Offset] = set()
        self.untimed: tuple[Offset, TimestampMs] | None = None
        self._poison: str | None = None
        self.poisoned = False
        self._poisoned_names: set[ShardName] = set()
        self.flush_timer: TimerHandle | None = None
        self.watchers: dict[object, Callable[[], None]] = {}
        self.producers = ShardProducers()
        self.stored_bytes = 0
        self.traffic = TopicTraffic()
        self.configure(spec)
        self.store = store
        committed = self._first_watermark(high_watermark)
        self.commits = CommitProtocol(store.end_offset, committed, leads=not spec.replicated)
        self.adopt(store)

    def configure(self, spec: ShardSpec) -> None:
        config = spec.config
        self.spec = spec
        self.replicated = spec.replicated
        self.bytes_max = config.number("max.message.bytes")
        self.index_keys = config.flag("index.key")
        self.index_tags = config.flag("index.tag")
        self.compacts = config.compacts
        self.stamps = config["message.timestamp.type"] == "LogAppendTime"
        after_ms = config.number("message.timestamp.after.max.ms")
        self.after_ms_max = LONG_MAX if self.stamps else after_ms
        self.flush = config.flush
        self.syncs = self.flush is Flush.SYNC
        self.expires = config.number("record.ttl.ms") >= 0
        self.policy = Acks(str(config["commit.policy"]))
        self.compression = _CODECS[str(config["compression.type"])]

    def adopt(self, store: ShardStore) -> None:
        """Take a store that was just opened. What it holds is what is."""
        self.store = store
        self.poison = None
        self.generation += 1
        self.taken_out.clear()
        self.learn_epoch()
        self.learn_producers()

    def learn_epoch(self) -> None:
        """A shard that nobody else has, has its first leader from the beginning."""
        epochs = self.store.epochs()
        first = NO_EPOCH if self.replicated else FIRST_EPOCH
        self.epoch: LeaderEpoch = epochs[-1].epoch if epochs else first

    def learn_producers(self) -> None:
        """What the log says of them. Blocks."""
        committed = self.committed() if self.replicated else self.store.end_offset
        self.producers.derive(self.store, committed)

    def _first_watermark(self, saved: Offset | None) -> Offset:
        """Alone, whatever survived is committed. A replica knows what its leader reported."""
        start, end = self.store.start_offset, self.store.end_offset
        if not self.replicated:
            return end
        return min(max(saved or start, start), end)

    @property
    def poison(self) -> str | None:
        """Why it takes no writes until it is recovered; None while it does."""
        return self._poison

    @poison.setter
    def poison(self, reason: str | None) -> None:
        self._poison, self.poisoned = reason, reason is not None
        if reason is None:
            self._poisoned_names.discard(self.name)
        else:
            self._poisoned_names.add(self.name)

    def report_poison_to(self, names: set[ShardName]) -> None:
        """Keep this shard's name in the set while it takes no writes."""
        self._poisoned_names = names
        self.poison = self._poison

    def committed(self) -> Offset:
        """The high watermark. A truncation under way may have left it above the end for a
        moment."""
        return min(self.commits.high_watermark, self.store.end_offset)

    def is_empty(self) -> bool:
        return self.store.start_offset == self.store.end_offset

    def offsets(self) -> ShardOffsets:
        store = self.store
        start, end = store.start_offset, store.end_offset
        return ShardOffsets(start, max(start, min(self.commits.high_watermark, end)), end)

    def last_stable(self) -> Offset:
        """Below it, it is decided of every record whether it counts."""
        start, committed, _ = self.offsets()
        return max(start, self.producers.table.transactions.last_stable(committed))

    # -- object storage ------------------------------------------------------------------------

    def is_tiered(self) -> bool:
        """Whether object storage has any of it, known or not."""
        return self.history is not None or self.store.local_start > self.store.start_offset

    def is_cold(self, offset: Offset) -> bool:
        """Whether reading there has to wait for object storage."""
        return self.store.start_offset <= offset < self.store.local_start

    def reads(self, *, waits: bool) -> Reads:
        """What a view of the shard reads from. `waits`: on a thread that may wait for object
        storage."""
        if not self.is_tiered():
            return self.store
        return TieredReads(self.name, self.store, self.history, waits=waits)

    def cold_segments(self) -> tuple[SegmentInfo, ...]:
        """What object storage has of it and is not kept here as well."""
        start, seam = self.store.start_offset, self.store.local_start
        if self.history is None or start == seam:
            return ()
        known = self.history.segments()
        return tuple(
            found._replace(end_offset=min(found.end_offset, seam), active=False)
            for found in known
            if start < found.end_offset and found.base_offset < seam
        )

    def settled_end(self) -> Offset:
        """Below it nothing changes any more: object storage has it, or is about to."""
        return max(self.tiered_end(), self.handed_out)

    def tiered_end(self) -> Offset:
        """Where that which object storage has ends, kept here as well or not."""
        known = self.history.segments() if self.history is not None else ()
        start, seam = self.store.start_offset, self.store.local_start
        return max(end_of(known), seam if start < seam else EARLIEST)

    def begin_anew(self) -> None:
        """Another log takes the place of this one. What object storage has is not of it."""
        self.generation += 1
        self.taken_out.clear()
        self.history, self.handed_out, self.shown = None, EARLIEST, EARLIEST

    # -- those who wait for a change; on the event loop alone ----------------------------------

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back at each change of start or high watermark. What is returned ends it."""
        ticket = object()
        self.watchers[ticket] = callback

        def forget() -> None:
            self.watchers.pop(ticket, None)

        return forget

    def moved(self) -> None:
        """Tell them. What a watcher does wrong is not the writer's fault."""
        for callback in tuple(self.watchers.values()):
            try:
                callback()
            except Exception:
                logger.exception("%s: a watcher failed", self.name)

    def check_writable(self) -> None:
        if self.gone:
            raise ShardNotFound(f"shard {self.name} was deleted")
        if self.poison is not None:
            raise ShardPoisoned(self.poison)
