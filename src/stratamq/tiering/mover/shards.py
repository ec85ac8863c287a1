"""One shard: what is due for it is done, and decided again after each segment."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stratamq.engine.contract import ShardTiering
from stratamq.meta.tier.files import DropFiles
from stratamq.model.errors import CorruptBatch, CorruptRecord, ShardNotFound, StrataError
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName
from stratamq.tiering.mover.contract import Surroundings
from stratamq.tiering.mover.policy import (
    Action,
    Drop,
    LocalLimits,
    Offload,
    SegmentUpload,
    ShardState,
    decide,
    local_limits,
)
from stratamq.tiering.mover.progress import Progress, Step
from stratamq.tiering.mover.rewrite import Gone, TierRewrite, outdated
from stratamq.tiering.mover.steps import SegmentOvertaken, Steps

OVERTAKEN_MAX = 3
"""A segment that changed so often while it was moved is left for the next round."""


SEGMENTS_AT_ONCE = 4
"""Then it is another shard's turn: a large backlog must not keep all others waiting."""


class Moved(NamedTuple):
    """What was done for a shard. `more`: it is not finished."""

    segments: int = 0
    log_bytes: int = 0
    freed_bytes: int = 0
    rewritten: int = 0
    more: bool = False

    def plus(self, moved: Moved) -> Moved:
        """Both together, and whether the second is finished."""
        return Moved(
            self.segments + moved.segments,
            self.log_bytes + moved.log_bytes,
            self.freed_bytes + moved.freed_bytes,
            self.rewritten + moved.rewritten,
            moved.more,
        )


NOTHING = Moved()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMover:
    around: Surroundings
    steps: Steps
    progress: Progress
    rewrite_ms: int
    _looked_ms: dict[ShardName, int] = field(default_factory=dict)
    """When a shard's files were last looked through."""

    def has_work(self, topic: Topic, shard: ShardName) -> bool:
        """Whether there may be something to do. Cheap, because it is asked for every shard in every
        round."""
        return local_limits(topic.config).moves or bool(self.around.files.files(shard))

    async def move(self, topic: Topic, shard: ShardName) -> Moved:
        """What is due, or a few segments of it. NotFound when the shard goes meanwhile."""
        return await _ShardRun(self, topic, shard, local_limits(topic.config)).all()

    def keep(self, shards: set[ShardName]) -> None:
        """Forget all others: they are gone."""
        for shard in self._looked_ms.keys() - shards:
            del self._looked_ms[shard]

    def looks_through(self, shard: ShardName) -> bool:
        """Whether it is time to. The first time is a while after the start: a node that is busy
        starting has better things to do."""
        now_ms = self.around.clock.now_ms()
        return now_ms - self._looked_ms.setdefault(shard, now_ms) >= self.rewrite_ms

    def look_through_next(self, shard: ShardName) -> None:
        """The next move looks through the shard's files, whenever that was last done."""
        self._looked_ms[shard] = self.around.clock.now_ms() - self.rewrite_ms

    def looked_through(self, shard: ShardName) -> None:
        self._looked_ms[shard] = self.around.clock.now_ms()


@dataclass(slots=True)
class _ShardRun:
    mover: ShardMover
    topic: Topic
    shard: ShardName
    limits: LocalLimits
    moved: Moved = NOTHING
    overtaken: int = 0
    compacted: bool = False
    damage: dict[Offset, StrataError] = field(default_factory=dict)
    """What is wrong with segments that cannot be moved, by their bases."""

    async def all(self) -> Moved:
        """Move what is due. A damaged segment holds up no other: those after it are moved as well.
        All of them stay here until it is repaired or gone, since the local copy goes oldest
        first."""
        while uploads := [
            one for one in await self._upkeep() if one.base_offset not in self.damage
        ]:
            if not self.compacted:  # records that are gone need not be moved
                self.compacted = True
                await self._engine().compact(self.shard)
                continue
            if self.moved.segments == SEGMENTS_AT_ONCE:
                return self.moved._replace(more=True)
            if not await self._try(uploads[0]):
                break
        if self.mover.looks_through(self.shard):
            await self._rewrite()
            self.mover.looked_through(self.shard)
        for error in self.damage.values():
            raise error
        return self.moved

    async def _rewrite(self) -> None:
        """Files with deleted records in them, one after the other."""
        engine, files = self._engine(), self.mover.around.files.files(self.shard)
        if not files:
            return
        start = engine.offsets(self.shard).start
        deleted = await engine.deleted(self.shard, files[0].base_offset, files[-1].end_offset)
        gone = Gone(start, deleted)
        for file in outdated(files, gone):
            with contextlib.suppress(SegmentOvertaken):
                topic, shard, progress = self.topic, self.shard, self.mover.progress
                with progress.track(topic.name, shard, file.base_offset) as track:
                    again = TierRewrite(self.mover.steps, engine, topic, shard, file, gone, track)
                    new = await again.run()
                progress.add(files_rewritten=1, object_bytes_stored=new.size_bytes)
                self.moved = self.moved._replace(rewritten=self.moved.rewritten + 1)

    async def _upkeep(self) -> list[SegmentUpload]:
        """Do what is quick, and say what is not. Nothing is dropped of which history does not
        have everything: the engine holds us to that."""
        while True:
            await self._engine().load_segments(self.shard)
            actions = self._decided()
            quick = [action for action in actions if not isinstance(action, SegmentUpload)]
            for action in quick:
                await self._act(action)
            if not any(isinstance(action, Drop) for action in quick):
                return [action for action in actions if isinstance(action, SegmentUpload)]

    def _decided(self) -> Sequence[Action]:
        engine, around = self._engine(), self.mover.around
        start, committed, _ = engine.offsets(self.shard)
        state = ShardState(
            segments=engine.segments(self.shard),
            files=around.files.files(self.shard),
            start=start,
            stable=min(committed, engine.last_stable_offset(self.shard)),
        )
        actions = decide(state, self.limits, around.clock.now_ms())
        due = [action.segment for action in actions if isinstance(action, SegmentUpload)]
        self.mover.progress.due(self.shard, len(due), sum(one.size_bytes for one in due))
        return actions

    async def _act(self, action: Drop | Offload) -> None:
        around = self.mover.around
        if isinstance(action, Drop):
            now_ms = around.clock.now_ms()
            command = DropFiles(shard=self.shard, below=action.below, now_ms=now_ms)
            await self.mover.steps.know(await around.meta.submit(command))
            around.attach(self.shard)
        else:
            self.mover.steps.on_step(self.shard, Step.OFFLOAD)
            freed = await self._engine().offload(self.shard, action.end)
            self.moved = self.moved._replace(freed_bytes=self.moved.freed_bytes + freed)
            self.mover.progress.add(local_bytes_freed=freed)

    async def _try(self, upload: SegmentUpload) -> bool:
        """Whether to go on."""
        progress = self.mover.progress
        with progress.track(self.topic.name, self.shard, upload.base_offset) as track:
            try:
                file = await self.mover.steps.move(self.topic, self.shard, upload, track)
            except SegmentOvertaken:
                self.overtaken += 1
                return self.overtaken < OVERTAKEN_MAX
            except (CorruptBatch, CorruptRecord) as error:
                self.damage[upload.base_offset] = error
                return True
        progress.add(
            segments_moved=1, log_bytes_moved=file.log_bytes, object_bytes_stored=file.size_bytes
        )
        done = self.moved
        self.moved = done._replace(
            segments=done.segments + 1, log_bytes=done.log_bytes + file.log_bytes
        )
        return True

    def _engine(self) -> ShardTiering:
        engine = self.mover.around.engine_of(self.shard)
        if engine is None:
            raise ShardNotFound(f"{self.shard} is not here")
        return engine
