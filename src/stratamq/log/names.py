"""Every file name of a shard. Nothing else spells one.

{data}/{shard}/00000000000000000042.log          batches from offset 42 on
{data}/{shard}/00000000000000000042.index        sealed: offset -> position
{data}/{shard}/00000000000000000042.timeindex    sealed: time -> offset
{data}/{shard}/00000000000000000042.log.7.cleaned  a rewrite that is not in force yet; its indexes
{data}/{shard}/00000000000000000042.log.torn-977 what was cut off at byte 977, for inspection
{data}/{shard}/00000000000000000042.producers    what is known of producers below offset 42
{data}/{shard}/leader-epoch-checkpoint           Kafka's format
{data}/{shard}/deletions                         offsets deleted one by one
{data}/{shard}/start-offset                      where the log begins after a trim
{data}/{shard}/local-start-offset                below it, object storage has the segments
{data}/{shard}/file-list                         which segments the shard has
{data}/{shard}/00000000000000000042.log.stray    a file that the list does not name, set aside
{data}/{shard}/shard.json                        the shard's name and configs
{data}/{shard}/shard.json.damaged                one that could not be read, for inspection; then -2
{data}/{shard}-deleted/                          a shard that is being deleted
"""

from __future__ import annotations

from stratamq.model.types import Offset, Position

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
PRODUCERS = ".producers"
CLEANED = ".cleaned"
TORN = ".torn-"
TEMPORARY = ".tmp"
DAMAGED = ".damaged"
STRAY = ".stray"
GONE = "-deleted"

EPOCHS = "leader-epoch-checkpoint"
DELETIONS = "deletions"
START_OFFSET = "start-offset"
LOCAL_START = "local-start-offset"
FILE_LIST = "file-list"
SPEC = "shard.json"

OFFSET_DIGITS = 20
OFFSET_MAX = (1 << 63) - 1


def segment_file(base: Offset, suffix: str) -> str:
    return f"{base:0{OFFSET_DIGITS}d}{suffix}"


def torn_file(base: Offset, position: Position) -> str:
    return f"{segment_file(base, LOG)}{TORN}{position}"


def torn_at(name: str) -> tuple[str, int]:
    """For sorting copies of torn tails, the oldest of a segment first: logs grow."""
    log, _, position = name.partition(TORN)
    return log, int(position) if position.isdigit() else 0


def base_of_log(name: str) -> Offset | None:
    """The base offset in the name of a `.log` file; None for any other file."""
    return _offset_before(name, LOG)


def offset_of_snapshot(name: str) -> Offset | None:
    """The offset in the name of a `.producers` file; None for any other file."""
    return _offset_before(name, PRODUCERS)


def _offset_before(name: str, suffix: str) -> Offset | None:
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != OFFSET_DIGITS or not stem.isascii() or not stem.isdigit():
        return None
    return Offset(int(stem)) if int(stem) <= OFFSET_MAX else None
