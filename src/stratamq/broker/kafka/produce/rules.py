"""What a topic's configs say about the batches that producers send.

Here is what only producers are held to; size, keys and the stamping of records are the engine's,
which holds all writers to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.model.errors import InvalidRecord, InvalidTimestamp, StrataError
from stratamq.model.settings.topic import LONG_MAX
from stratamq.model.topic import TopicConfig
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.records import (
    BatchHeader,
    Compression,
    check_batch,
    find_faults,
)
from stratamq.wire.kafka.records.rewrite import recompress

ALL = -1
AS_IT_CAME = "producer"

_CODECS = {"uncompressed": Compression.NONE} | {
    codec.name.lower(): codec for codec in Compression if codec
}


class RecordsRefused(Refused):
    """Some records of a batch are at fault, by their indexes in it; none of the batch is stored."""

    def __init__(self, code: ErrorCode, why: str, at_fault: Sequence[int]) -> None:
        super().__init__(code, "One or more records have been rejected")
        self.why, self.at_fault = why, at_fault


class ProduceRules(NamedTuple):
    """A topic's configs, as far as they are asked for with every batch."""

    config: TopicConfig
    replicas_min: int
    """A producer that wants acks of all replicas wants at least so many."""

    after_ms: int
    before_ms: int
    codec: Compression | None
    """None keeps what the producer chose."""

    are_plain: bool
    """Whether a batch is stored as it came, however it is compressed and whatever its age."""


def rules_of(config: TopicConfig) -> ProduceRules:
    wanted = str(config["compression.type"])
    codec = None if wanted == AS_IT_CAME else _CODECS[wanted]
    by_node = config["message.timestamp.type"] == "LogAppendTime"
    before_ms = LONG_MAX if by_node else config.number("message.timestamp.before.max.ms")
    return ProduceRules(
        config,
        config.number("min.insync.replicas") if config["commit.policy"] == "all" else 0,
        config.number("message.timestamp.after.max.ms"),
        before_ms,
        codec,
        are_plain=before_ms == LONG_MAX and codec is None,
    )


# -- replicas --------------------------------------------------------------------------------------


def check_replicas(rules: ProduceRules, acks: int, isr_size: int) -> None:
    if acks == ALL and isr_size < rules.replicas_min:
        raise Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{isr_size} in sync, and min.insync.replicas is {rules.replicas_min}",
        )


# -- timestamps ------------------------------------------------------------------------------------


def check_timestamps(
    rules: ProduceRules,
    header: BatchHeader,
    data: Buffer,
    now_ms: TimestampMs,
    decompressed_max: int,
) -> None:
    """Refuse records that are older than the topic takes. Few topics say so, and then every batch
    is unpacked. How young they may be is asked by the engine, which knows the largest timestamp."""
    if rules.before_ms == LONG_MAX:
        return
    earliest, latest = now_ms - rules.before_ms, now_ms + rules.after_ms
    try:
        late = find_faults(header, data, decompressed_max, earliest=earliest, latest=latest)
    except StrataError:
        return  # the engine will say what is wrong with it
    if late:
        raise _out_of_range(earliest, latest, late)


def at_fault(
    header: BatchHeader,
    data: Buffer,
    error: InvalidRecord | InvalidTimestamp,
    decompressed_max: int,
) -> RecordsRefused:
    """The same with the records that are at fault, as far as they can be found within the limit.
    It is checked for only when a batch was refused."""
    find = partial(find_faults, header, data, decompressed_max)
    try:
        if isinstance(error, InvalidTimestamp):
            late = find(latest=error.latest_ms)
            return _out_of_range(-LONG_MAX, error.latest_ms, late)
        keyless = find(keyless=True)
    except StrataError:
        keyless = []
    why = "a compacted topic needs a key" if keyless else str(error)
    return RecordsRefused(code_of(error), why, keyless)


def _out_of_range(earliest: int, latest: int, late: Sequence[int]) -> RecordsRefused:
    why = f"its timestamp is not in {earliest}..{latest}"
    return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, why, late)


# -- compression -----------------------------------------------------------------------------------


def compressed(
    rules: ProduceRules, header: BatchHeader, data: Buffer, decompressed_max: int
) -> Buffer:
    """The batch under the topic's codec. One that has it already is kept as it came."""
    wanted = rules.codec
    if wanted is None or wanted == header.compression:
        return data
    checked = check_batch(data, rules.config.number("max.message.bytes"))
    return recompress(checked, data, wanted, decompressed_max)
