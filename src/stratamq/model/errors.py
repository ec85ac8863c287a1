"""Everything that may go wrong and is expected to.

StrataError
├── InvalidInput                 the caller's bytes or arguments are wrong; nothing was stored
│   ├── CorruptBatch             length, CRC, counts or varints do not add up
│   ├── UnsupportedFormat        a magic byte or compression we do not know
│   ├── BatchTooLarge            over max.message.bytes, or over the decompression limit
│   ├── InvalidRecord            e.g. a record without a key on a compacted topic
│   ├── InvalidConfig            unknown name (with the nearest known one) or a bad value
│   └── InvalidName              a topic or group name we refuse
├── NotFound
│   ├── TopicNotFound
│   │   └── TopicRecreated       the name belongs to another topic by now; carries both ids
│   └── ShardNotFound
├── AlreadyExists                e.g. a topic of that name
├── OffsetOutOfRange             below the start or past the end; carries both
├── ProducerRefused              what a producer with an id may not write; nothing was stored
│   ├── OutOfOrderSequence       batches are missing between this one and its last
│   ├── InvalidProducerEpoch     a newer instance of the producer has replaced it
│   ├── InvalidTransactionState  e.g. a plain batch in the middle of a transaction
│   └── CoordinatorFenced        a mark from a coordinator that another has replaced
├── OffsetNotConsecutive         a replica's batch does not continue the log
├── CorruptRecord                stored bytes are damaged; carries file and position
├── StorageError                 the disk said no
│   ├── OutOfResources           nothing was stored; it works again by itself
│   │   ├── DiskFull             when there is space again
│   │   └── TooManyOpenFiles     when the process, or the system, may open files again
│   ├── ShardPoisoned            an fsync failed; only recovery makes the shard writable again
│   ├── ShardUnavailable         its files are missing or damaged; nothing of it is touched
│   ├── KVDamaged                a key-value store's own files are missing or damaged
│   └── StoreError               an object store said no
│       ├── ObjectNotFound
│       ├── ObjectExists         asked to store only if absent, and it is not
│       ├── StoreUnavailable     down, slow or busy: worth trying again later
│       ├── StoreDenied          credentials, permissions, or no such bucket
│       └── CorruptObject        the bytes are not those that were stored
├── CapacityExceeded             a configured limit was reached and its policy is to refuse
├── AnswerTooLarge               more was asked for at once than one answer may take
├── NotLeader                    another node leads this shard
├── CannotListen                 an address is in use, or not for this process to take
├── Unreachable                  a node cannot be connected to, or the connection broke
├── Denied                       a node knows the caller, or not, and says no
├── IllegalTransition            a segment or transaction cannot take this step from its state
├── StaleEpoch                   a compare-and-set lost: the epoch it expects has passed
├── TimedOut                     a step took longer than its configured time
└── Closed                       the engine, shard or node is shut down

Each protocol maps these once, at its edge.
"""

from __future__ import annotations


class StrataError(Exception):
    """Root of all expected failures."""


class InvalidInput(StrataError):
    pass


class CorruptBatch(InvalidInput):
    pass


class UnsupportedFormat(InvalidInput):
    pass


class BatchTooLarge(InvalidInput):
    pass


class InvalidRecord(InvalidInput):
    pass


class InvalidTimestamp(InvalidInput):
    """A producer's batch has a record that is younger than `latest_ms`."""

    def __init__(self, latest_ms: int, largest_ms: int) -> None:
        super().__init__(f"a timestamp of {largest_ms} is not in ..{latest_ms}")
        self.latest_ms = latest_ms


class InvalidConfig(InvalidInput):
    pass


class InvalidName(InvalidInput):
    pass


class NotFound(StrataError):
    pass


class TopicNotFound(NotFound):
    pass


class TopicRecreated(TopicNotFound):
    """A topic was asked for by its id, and the topic of its name has another one."""

    def __init__(self, name: str, topic_id: bytes, now: bytes) -> None:
        super().__init__(
            f"topic {name!r} was deleted and made again: "
            f"its id was {topic_id.hex()} and is {now.hex()} now"
        )
        self.name, self.topic_id, self.now = name, topic_id, now


class ShardNotFound(NotFound):
    pass


class AlreadyExists(StrataError):
    pass


class OffsetOutOfRange(StrataError):
    """`start` and `end` bound what can be read: start <= offset <= end."""

    def __init__(self, shard: str, offset: int, start: int, end: int) -> None:
        super().__init__(f"{shard}: offset {offset} is outside {start}..{end}")
        self.shard, self.offset, self.start, self.end = shard, offset, start, end


class ProducerRefused(StrataError):
    pass


class OutOfOrderSequence(ProducerRefused):
    pass


class InvalidProducerEpoch(ProducerRefused):
    pass


class InvalidTransactionState(ProducerRefused):
    pass


class CoordinatorFenced(ProducerRefused):
    pass


class OffsetNotConsecutive(StrataError):
    pass


class CorruptRecord(StrataError):
    """Damage in stored bytes. Reading may go on at `next_offset`, the first readable one."""

    def __init__(
        self, file: str, position: int, offset: int, next_offset: int, reason: str
    ) -> None:
        super().__init__(
            f"{file}: damaged at byte {position} ({reason}); offsets {offset}..{next_offset - 1} "
            "cannot be read"
        )
        self.file, self.position, self.reason = file, position, reason
        self.offset, self.next_offset = offset, next_offset


class StorageError(StrataError):
    pass


class OutOfResources(StorageError):
    pass


class DiskFull(OutOfResources):
    pass


class TooManyOpenFiles(OutOfResources):
    pass


class ShardPoisoned(StorageError):
    pass


class ShardUnavailable(StorageError):
    pass


class KVDamaged(StorageError):
    pass


class StoreError(StorageError):
    pass


class ObjectNotFound(StoreError):
    pass


class ObjectExists(StoreError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreDenied(StoreError):
    pass


class CorruptObject(StoreError):
    pass


class CapacityExceeded(StrataError):
    pass


class AnswerTooLarge(StrataError):
    pass


class NotLeader(StrataError):
    pass


class CannotListen(StrataError):
    pass


class Unreachable(StrataError):
    pass


class Denied(StrataError):
    pass


class IllegalTransition(StrataError):
    pass


class StaleEpoch(StrataError):
    pass


class TimedOut(StrataError):
    pass


class Closed(StrataError):
    pass
