"""What is to be done for a shard. Pure: the mover acts on the answer.

Laws
----
1.  Only sealed segments move, wholly below the last stable offset, oldest first, none left out.
2.  A segment is dropped locally only when final files have all of it, as it is now: one that was
    rewritten after it was exported is uploaded again.
3.  Carried out and asked again, nothing is left to do, and what is due is no longer local.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stratamq.log.contract import SegmentInfo
from stratamq.meta.tier.files import TierFile
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset


class LocalLimits(NamedTuple):
    """How old and how large local data may be; None: nothing moves on this account. "As retention"
    means that too: local data goes when all of it goes."""

    age_ms: int | None
    size_bytes: int | None

    @property
    def moves(self) -> bool:
        return self.age_ms is not None or self.size_bytes is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """A shard as it is now. `stable` is where the first undecided or uncommitted record may be."""

    segments: Sequence[SegmentInfo]
    """Those in the engine's own store, oldest first."""
    files: Sequence[TierFile]
    """In the order of their offsets."""
    start: Offset
    stable: Offset


class Drop(NamedTuple):
    """Forget the files wholly below this offset."""

    below: Offset


class Offload(NamedTuple):
    """Drop the local segments wholly below this offset."""

    end: Offset


class SegmentUpload(NamedTuple):
    """Give a segment's offsets `base_offset..end_offset - 1` a final file.

    All of the segment, unless neighbours have some of it. `replace` are final files that lie within
    that range, `early` the not-final ones that touch it.
    """

    segment: SegmentInfo
    base_offset: Offset
    end_offset: Offset
    replace: tuple[Offset, ...] = ()
    early: tuple[Offset, ...] = ()


Action = Drop | Offload | SegmentUpload


def local_limits(config: TopicConfig) -> LocalLimits:
    if not config.flag("remote.storage.enable"):
        return LocalLimits(None, None)
    age_ms, size_bytes = config.number("local.retention.ms"), config.number("local.retention.bytes")
    return LocalLimits(age_ms if age_ms >= 0 else None, size_bytes if size_bytes >= 0 else None)


def decide(state: ShardState, limits: LocalLimits, now_ms: int) -> tuple[Action, ...]:
    """Return what is to be done, in order. An upload changes what the next one has to replace:
    ask again after each."""
    movable = 0
    for segment in state.segments:
        if segment.active or segment.end_offset > state.stable:
            break
        movable += 1
    by_age = _by_age(state.segments[:movable], limits.age_ms, now_ms)
    by_size = _by_size(state.segments, limits.size_bytes)
    segments = state.segments[: min(movable, max(by_age, by_size))]
    finals = [file for file in state.files if file.final]
    here = [_covered(segment, finals) for segment in segments]
    offloaded = here.index(False) if False in here else len(here)
    actions: list[Action] = []
    if any(file.end_offset <= state.start for file in state.files):
        actions.append(Drop(state.start))
    if offloaded:
        actions.append(Offload(segments[offloaded - 1].end_offset))
    missing = [segment for segment, found in zip(segments, here, strict=True) if not found]
    return (*actions, *(upload_of(segment, state.files) for segment in missing))


# -- what is due -----------------------------------------------------------------------------------


def _by_age(segments: Sequence[SegmentInfo], limit_ms: int | None, now_ms: int) -> int:
    """A segment that compaction emptied has no age: it goes with an old one after it."""
    count = 0
    if limit_ms is None:
        return count
    for number, segment in enumerate(segments, 1):
        if not segment.size_bytes:
            continue
        if not 0 <= segment.largest_timestamp < now_ms - limit_ms:
            break
        count = number
    return count


def _by_size(segments: Sequence[SegmentInfo], limit_bytes: int | None) -> int:
    if limit_bytes is None:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - limit_bytes
    count = 0
    for segment in segments:
        if excess <= 0:
            break
        excess -= segment.size_bytes
        count += 1
    return count


# -- what files have of it -------------------------------------------------------------------------


def _covered(segment: SegmentInfo, finals: Iterable[TierFile]) -> bool:
    """Whether final files have all of it. Of a file that was made of just this segment it is known
    what it was made of, and compaction may have changed that since."""
    reached = segment.base_offset
    for file in finals:
        if (file.base_offset, file.end_offset) == (segment.base_offset, segment.end_offset):
            return file.log_bytes == segment.size_bytes
        if file.base_offset <= reached < file.end_offset:
            reached = file.end_offset
    return reached >= segment.end_offset


def upload_of(segment: SegmentInfo, files: Iterable[TierFile]) -> SegmentUpload:
    """Plan a segment's upload given these files. Final files that reach over an edge of the segment
    stay, and the upload has only the offsets they leave."""
    base, end = segment.base_offset, segment.end_offset
    touching = [file for file in files if file.base_offset < end and file.end_offset > base]
    finals = [file for file in touching if file.final]
    for file in finals:
        if file.base_offset < segment.base_offset:
            base = file.end_offset
        elif file.end_offset > segment.end_offset:
            end = file.base_offset
    return SegmentUpload(
        segment,
        base,
        end,
        tuple(file.base_offset for file in finals if base <= file.base_offset < end),
        tuple(file.base_offset for file in touching if not file.final),
    )
