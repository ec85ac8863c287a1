"""Early files: the newest records of a topic made visible in its table, out of the local log.

They are never the only copy: the log has what they hold, until a final file takes their place. So
whatever is cut off here leaves an object that nothing names, and is simply repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stratamq.engine.contract import ShardTiering
from stratamq.lake.declared import columns_of, columns_text, declared
from stratamq.log.disk import PRIVATE_FOLDER
from stratamq.log.freeing import clear_away
from stratamq.meta.tier.files import CommitFiles, TierFile, TierObject
from stratamq.model.errors import (
    InvalidInput,
    NotFound,
    ShardNotFound,
    StorageError,
    StoreError,
    StrataError,
)
from stratamq.model.shard import split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName
from stratamq.tiering import keys
from stratamq.tiering.converter.processes import Converters
from stratamq.tiering.converter.requests import Conversion, Converted
from stratamq.tiering.mover.contract import Surroundings
from stratamq.tiering.mover.ship import Flights, Shipper
from stratamq.tiering.tables.plan import EarlyFile, Ends, merges, missing, outdated
from stratamq.wire.kafka.records import walk

PIECE_BYTES = 4 << 20
ROUNDS_MAX = 10
"""Plans for a shard in one flush: it grows, and others commit files, meanwhile."""

CACHE_TIMEOUT_S = 10.0


class FilesOvertaken(StrataError):
    """Others have changed the shard's files since this one was planned."""


class Visible(NamedTuple):
    """What was added to a table."""

    files: int = 0
    rows: int = 0

    def plus(self, file: TierFile | None) -> Visible:
        return Visible(self.files + 1, self.rows + file.rows) if file else self


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyWriter:
    """Flushes shards. One flush of a shard at a time; the mover may work at the same time."""

    around: Surroundings
    engine_of: Callable[[ShardName], ShardTiering | None]
    converters: Converters
    shipper: Shipper
    flights: Flights
    merge_files: int
    _locks: dict[ShardName, asyncio.Lock] = field(default_factory=dict)
    _empty: dict[ShardName, dict[Offset, EarlyFile]] = field(default_factory=dict)
    """Ranges that were found to have no row, so that they are not read at each flush."""

    @property
    def work_folder(self) -> Path:
        return self.around.work_folder / "early"

    async def open(self) -> None:
        """Remove what a process that died left in the work folder."""
        await asyncio.to_thread(clear_away, self.work_folder)

    async def flush(self, topic: Topic, shard: ShardName) -> Visible:
        """Write all records that are decided now into files. Nothing is done for a shard that this
        node does not store."""
        engine = self.engine_of(shard)
        if engine is None:
            return Visible()
        async with self._locks.setdefault(shard, asyncio.Lock()):
            ends = _ends(engine, shard)
            done = await self._flush(topic, shard, ends)
            for _ in range(ROUNDS_MAX):
                await self.engine(shard).load_segments(shard)
                segments, files = self.engine(shard).segments(shard), self.around.files.files(shard)
                planned = merges(segments, files, ends, self.merge_files)
                if not planned:
                    break
                for one in planned:
                    await self._write(topic, shard, one)
            # Records that were deleted since go from the files that have them.
            early = [file for file in self.around.files.files(shard) if not file.final]
            if early:
                first, last = early[0].base_offset, early[-1].end_offset
                deleted = await self.engine(shard).deleted(shard, first, last)
                for one in outdated(early, deleted, ends):
                    await self._write(topic, shard, one)
            return done

    def is_behind(self, shard: ShardName) -> bool:
        """Whether a flush would find something to do."""
        engine = self.engine_of(shard)
        return engine is not None and bool(self._missing(engine, shard, _ends(engine, shard)))

    def forget(self, shard: ShardName) -> None:
        """Forget a shard that is gone."""
        self._locks.pop(shard, None)
        self._empty.pop(shard, None)

    async def _flush(self, topic: Topic, shard: ShardName, ends: Ends) -> Visible:
        done = Visible()
        for _ in range(ROUNDS_MAX):
            await self.engine(shard).load_segments(shard)
            planned = self._missing(self.engine(shard), shard, ends)
            if not planned:
                break
            for one in planned:
                done = done.plus(await self._write(topic, shard, one))
        return done

    def _missing(self, engine: ShardTiering, shard: ShardName, ends: Ends) -> list[EarlyFile]:
        found = missing(engine.segments(shard), self.around.files.files(shard), ends)
        empty = self._empty.get(shard, {})
        return [one for one in found if empty.get(one.base_offset) != one]

    def engine(self, shard: ShardName) -> ShardTiering:
        engine = self.engine_of(shard)
        if engine is None:
            raise ShardNotFound(f"{shard} is not here any more")
        return engine

    async def _write(self, topic: Topic, shard: ShardName, early: EarlyFile) -> TierFile | None:
        """Write one file. None if it has no row, or if other files were committed meanwhile: then
        the caller has to plan again."""
        token = keys.new_token(self.around.owner)
        folder = self.work_folder / f"{shard}-{token}"
        try:
            file = await _Writing(self, topic, shard, early, token, folder).run()
        except FilesOvertaken:
            return None
        finally:
            await asyncio.to_thread(clear_away, folder)
        if file is None:
            self._empty.setdefault(shard, {})[early.base_offset] = early._replace(replace=())
        return file


@dataclass(frozen=True, slots=True)
class _Writing:
    """One file: copied out of the log, converted, stored, and made known."""

    writer: EarlyWriter
    topic: Topic
    shard: ShardName
    early: EarlyFile
    token: str
    folder: Path

    async def run(self) -> TierFile | None:
        engine, (base, end, _) = self.writer.engine(self.shard), self.early
        await engine.note_shown(self.shard, end)
        start = engine.offsets(self.shard).start
        # Before and after: in between, compaction may take out a record and forget its mark.
        before = await engine.deleted(self.shard, base, end)
        log_bytes = await self._copy()
        deleted = await engine.deleted(self.shard, base, end)
        made = await self._convert(start, sorted({*before, *deleted}))
        if made.parquet is None or not made.rows:
            await self._commit(())
            return None
        file = replace(
            self._file(made, TierObject(self._key(), *made.parquet)),
            log_bytes=log_bytes,
            deleted=len(deleted),
            start=start,
        )
        with self.writer.flights.of([self._key()]):
            try:
                await self.writer.shipper.upload(self._key(), self._parquet(), made.parquet)
                await self._commit((file,))
            except (StoreError, FilesOvertaken):
                await self.writer.shipper.discard([self._key()])
                raise
        return file

    # -- making it ---------------------------------------------------------------------------------

    async def _copy(self) -> int:
        """The batches of the stretch, out of the local log; their bytes. The last may reach further
        than the stretch, and the converter cuts it off. A trim may have taken some of the first."""
        engine, end = self.writer.engine(self.shard), self.early.end_offset
        offset, size = max(self.early.base_offset, engine.offsets(self.shard).start), 0
        try:
            await asyncio.to_thread(self.folder.mkdir, PRIVATE_FOLDER, parents=True)
            with await asyncio.to_thread(self._log().open, "wb") as file:
                while offset < end:
                    data = await engine.read_raw(self.shard, offset, PIECE_BYTES)
                    piece = await asyncio.to_thread(_append, file, data, end)
                    if piece is None:
                        break
                    offset, size = piece.next_offset, size + piece.size
        except OSError as error:
            raise StorageError(f"{self.shard}: no early file: {error}") from error
        return size

    async def _convert(self, start: Offset, deleted: Sequence[Offset]) -> Converted:
        shard, config = self.shard, self.topic.config
        engine, (base, end, _) = self.writer.engine(shard), self.early
        work = Conversion(
            source=self._log(),
            parquet=self._parquet(),
            partition=split_shard_name(shard)[1],
            base_offset=base,
            end_offset=end,
            start=start,
            deleted=tuple(deleted),
            aborted=tuple(engine.aborted_transactions(shard, base, end)),
            value_format=str(config["lake.value.format"]),
            value_schema=str(config["lake.value.schema"]),
            notes={"stratamq.topic": self.topic.name, "stratamq.shard": shard},
        )
        return await self.writer.converters.convert(work)

    def _log(self) -> Path:
        return self.folder / "part.log"

    def _parquet(self) -> Path:
        return self.folder / "file.parquet"

    def _key(self) -> str:
        place = keys.topic_folder(self.topic.name, self.topic.topic_id)
        base, end, _ = self.early
        return keys.data_key(place, split_shard_name(self.shard)[1], base, end, self.token)

    # -- making it known ---------------------------------------------------------------------------

    def _file(self, made: Converted, stored: TierObject) -> TierFile:
        config = self.topic.config
        values = declared(str(config["lake.value.format"]), str(config["lake.value.schema"]))
        return TierFile(
            shard=self.shard,
            base_offset=self.early.base_offset,
            end_offset=self.early.end_offset,
            final=False,
            parquet=stored,
            parquet_end=made.parquet_end,
            rows=made.rows,
            batches=made.batches,
            min_timestamp=made.min_timestamp,
            max_timestamp=made.max_timestamp,
            unparsed=made.unparsed,
            misfits=made.misfits,
            columns=columns_text(columns_of(values)),
            created_ms=self.writer.around.clock.now_ms(),
        )

    async def _commit(self, add: tuple[TierFile, ...]) -> None:
        """Commit the file. FilesOvertaken when the plan is no longer right: the mover, say, has
        given the segment its final file. On return this node knows what is so now."""
        if not add and not self.early.replace:
            return
        around = self.writer.around
        command = CommitFiles(
            shard=self.shard, add=add, replace=self.early.replace, now_ms=around.clock.now_ms()
        )
        try:
            revision = await around.meta.submit(command)
        except (InvalidInput, NotFound) as error:
            await around.files.wait_for_revision(await around.meta.revision(), CACHE_TIMEOUT_S)
            raise FilesOvertaken(str(error)) from error
        await around.files.wait_for_revision(revision, CACHE_TIMEOUT_S)


class _Piece(NamedTuple):
    next_offset: Offset
    size: int


def _append(file: BinaryIO, data: bytes, end: Offset) -> _Piece | None:
    """The batches that begin below `end`; None when there is none."""
    spans = [one for one in walk(data) if one.base_offset < end]
    if not spans:
        return None
    size = spans[-1].position + spans[-1].size
    file.write(memoryview(data)[:size])
    return _Piece(Offset(spans[-1].last_offset + 1), size)


def _ends(engine: ShardTiering, shard: ShardName) -> Ends:
    offsets = engine.offsets(shard)
    return Ends(offsets.start, min(offsets.high_watermark, engine.last_stable_offset(shard)))
