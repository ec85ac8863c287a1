"""The steps of a segment's move. Each may be cut off at any point, and repeated.

| step    | what it does                            | what a crash in it leaves    | cleaned by |
|---------|-----------------------------------------|------------------------------|------------|
| export  | links or copies the segment             | a work folder                | next start |
| convert | makes the files, in another process     | a work folder                | next start |
| upload  | stores them under keys never used before | objects that nothing names   | orphans    |
| verify  | reads all of them back                  | objects that nothing names   | orphans    |
| commit  | the Meta Service names them: the one    | what the step before or the  | orphans or |
|         | moment at which the segment is moved    | step after leaves | next round |
| attach  | readers of the shard get the file | a file that is local as well | next round |
| offload | the engine drops its own copy           | a file that is local as well | next round |

The local copy goes last, and only after the Meta Service has said, durably, where the other is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stratamq.engine.contract import ExportedSegment, ShardTiering
from stratamq.lake.declared import columns_of, columns_text, declared
from stratamq.log.disk import PRIVATE_FOLDER
from stratamq.log.freeing import clear_away
from stratamq.meta.tier.files import CommitFiles, TierFile, TierObject
from stratamq.model.errors import (
    CapacityExceeded,
    InvalidInput,
    NotFound,
    ShardNotFound,
    StrataError,
)
from stratamq.model.shard import split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import EARLIEST, Offset, ShardName
from stratamq.tiering import keys
from stratamq.tiering.converter.processes import Converters
from stratamq.tiering.converter.requests import Conversion, Converted, FileSums
from stratamq.tiering.mover.contract import Surroundings
from stratamq.tiering.mover.policy import SegmentUpload, upload_of
from stratamq.tiering.mover.progress import Step, Track
from stratamq.tiering.mover.ship import Flights, Shipper

COMMIT_ATTEMPTS = 5
"""Files that make records visible early may come and go while a segment is on its way."""

CACHE_TIMEOUT_S = 10.0

OnStep = Callable[[ShardName, Step], None]
"""Called before each step. Tests stop here."""


class SegmentOvertaken(StrataError):
    """The segment is no longer what it was: compacted, trimmed, or otherwise moved. The mover
    decides again."""


REFUSALS = (InvalidInput, NotFound, CapacityExceeded, SegmentOvertaken)
"""By these the Meta Service says that it has named nothing."""


def columns_for(topic: Topic) -> str:
    """The typed columns of a topic's files now."""
    value_format, schema = topic.config["lake.value.format"], topic.config["lake.value.schema"]
    return columns_text(columns_of(declared(str(value_format), str(schema))))


@dataclass(frozen=True, slots=True)
class FilePart:
    """A local file, and the object it becomes. `name` is its field of TierFile."""

    name: str
    path: Path
    sums: FileSums
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Carries segments through the steps up to `attach`. `offload` is decided after that, by the
    state of the shard then."""

    around: Surroundings
    converters: Converters
    shipper: Shipper
    flights: Flights
    on_step: OnStep = lambda shard, step: None

    async def move(
        self, topic: Topic, shard: ShardName, upload: SegmentUpload, track: Track
    ) -> TierFile:
        """Give a segment its final file. What fails leaves the segment as it was."""
        token = keys.new_token(self.around.owner)
        async with self.work(f"{shard}-{token}") as folder:
            return await _Move(self, topic, shard, upload, track, token, folder).run()

    @contextlib.asynccontextmanager
    async def work(self, name: str) -> AsyncIterator[Path]:
        """Make a work folder, and remove it at the end."""
        folder = self.around.moving_folder / name
        try:
            await asyncio.to_thread(folder.mkdir, PRIVATE_FOLDER, parents=True)
            yield folder
        finally:
            await asyncio.to_thread(clear_away, folder)

    def enter(self, shard: ShardName, track: Track, step: Step, total_bytes: int = 0) -> None:
        track.enter(step, total_bytes)
        self.on_step(shard, step)

    async def ship(
        self, shard: ShardName, track: Track, parts: Sequence[FilePart]
    ) -> dict[str, TierObject]:
        """Upload the parts and read all of them back. The objects by the parts' names."""
        total_bytes = sum(part.sums.size for part in parts)
        self.enter(shard, track, Step.UPLOAD, total_bytes)
        stored = {
            part.name: await self.shipper.upload(part.key, part.path, part.sums, track.count)
            for part in parts
        }
        self.enter(shard, track, Step.VERIFY, total_bytes)
        for one in stored.values():
            await self.shipper.verify(one, track.count)
        return stored

    async def know(self, revision: int) -> None:
        """Wait until this node's copy of the metadata has this revision."""
        await self.around.files.wait_for_revision(revision, CACHE_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class _Move:
    steps: Steps
    topic: Topic
    shard: ShardName
    upload: SegmentUpload
    track: Track
    token: str
    folder: Path

    async def run(self) -> TierFile:
        exported = await self._export()
        start = self._engine().offsets(self.shard).start  # first: marks below it are forgotten
        deleted = await self._engine().deleted(
            self.shard, self.upload.base_offset, self.upload.end_offset
        )
        made = await self._convert(exported, deleted, start)
        parts = self._parts(exported, made)
        wanted = [part.key for part in parts]
        with self.steps.flights.of(wanted):
            try:
                stored = await self.steps.ship(self.shard, self.track, parts)
                file = self._file(stored, made, len(deleted), start)
                commands = self._commands(file)
            except StrataError:
                await self.steps.shipper.discard(wanted)
                raise
            try:
                revision = await self._commit(file, commands)
            except REFUSALS:
                await self.steps.shipper.discard(wanted)
                raise
        self.steps.enter(self.shard, self.track, Step.ATTACH)
        await self.steps.know(revision)
        self.steps.around.attach(self.shard)
        return file

    def _engine(self) -> ShardTiering:
        engine = self.steps.around.engine_of(self.shard)
        if engine is None:
            raise ShardNotFound(f"{self.shard} is not here any more")
        return engine

    # -- export and convert ------------------------------------------------------------------------

    async def _export(self) -> ExportedSegment:
        self.steps.enter(self.shard, self.track, Step.EXPORT)
        base = self.upload.segment.base_offset
        engine = self._engine()
        try:
            exported = await engine.export_segment(self.shard, base, self.folder)
        except NotFound as error:
            engine.offsets(self.shard)  # the whole shard may be gone
            raise SegmentOvertaken(str(error)) from error
        if exported.segment != self.upload.segment:
            raise SegmentOvertaken(f"{self.shard}: the segment at {base} has changed")
        return exported

    async def _convert(
        self, exported: ExportedSegment, deleted: Sequence[Offset], start: Offset
    ) -> Converted:
        self.steps.enter(self.shard, self.track, Step.CONVERT, exported.segment.size_bytes)
        engine, config = self._engine(), self.topic.config
        base, end = self.upload.base_offset, self.upload.end_offset
        tier_format = str(config["tier.format"])
        work = Conversion(
            source=exported.log,
            parquet=None if tier_format == "log" else self.folder / "file.parquet",
            log=None if tier_format == "parquet" else self.folder / "file.log",
            partition=split_shard_name(self.shard)[1],
            base_offset=base,
            end_offset=end,
            start=start,
            deleted=tuple(deleted),
            aborted=tuple(engine.aborted_transactions(self.shard, base, end)),
            value_format=str(config["lake.value.format"]),
            value_schema=str(config["lake.value.schema"]),
            notes={"stratamq.topic": self.topic.name, "stratamq.shard": self.shard},
            sums_of=() if tier_format == "parquet" else self._sidecars(exported),
        )
        return await self.steps.converters.convert(work, self.track.reached)

    def _sidecars(self, exported: ExportedSegment) -> tuple[Path, ...]:
        """Return the sidecars of the whole segment. A part of a segment is read without."""
        whole = (self.upload.base_offset, self.upload.end_offset) == exported.segment[:2]
        if not whole or exported.index is None or exported.timeindex is None:
            return ()
        return exported.index, exported.timeindex

    def _parts(self, exported: ExportedSegment, made: Converted) -> list[FilePart]:
        folder = keys.topic_folder(self.topic.name, self.topic.topic_id)
        partition = split_shard_name(self.shard)[1]
        base, end = self.upload.base_offset, self.upload.end_offset
        raw = keys.log_keys(folder, partition, base, self.token)
        parts = []
        if made.parquet:
            key = keys.data_key(folder, partition, base, end, self.token)
            parts.append(FilePart("parquet", self.folder / "file.parquet", made.parquet, key))
        if made.log:
            parts.append(FilePart("log", self.folder / "file.log", made.log, raw.log))
            names = ("index", raw.index), ("timeindex", raw.timeindex)
            sidecars = zip(names, self._sidecars(exported), made.sums, strict=False)
            parts += [FilePart(name, path, sums, key) for (name, key), path, sums in sidecars]
        return parts

    # -- upload, verify, commit --------------------------------------------------------------------

    def _file(
        self, stored: dict[str, TierObject], made: Converted, deleted: int, start: Offset
    ) -> TierFile:
        as_it_was = "log" in stored  # what is deleted is still in it
        return TierFile(
            shard=self.shard,
            base_offset=self.upload.base_offset,
            end_offset=self.upload.end_offset,
            final=True,
            parquet=stored.get("parquet"),
            parquet_end=made.parquet_end,
            log=stored.get("log"),
            index=stored.get("index"),
            timeindex=stored.get("timeindex"),
            rows=made.rows,
            batches=made.batches,
            log_bytes=self.upload.segment.size_bytes,
            min_timestamp=made.min_timestamp,
            max_timestamp=made.max_timestamp,
            unparsed=made.unparsed,
            misfits=made.misfits,
            deleted=0 if as_it_was else deleted,
            start=EARLIEST if as_it_was else start,
            columns=columns_for(self.topic) if made.parquet else "",
            created_ms=self.steps.around.clock.now_ms(),
            written_ms=self.upload.segment.largest_timestamp,
        )

    def _commands(self, file: TierFile) -> tuple[CommitFiles, ...]:
        """Make the commands by the files of now: others may have come or gone, and the segment may
        have changed since it was exported, in which case the file is of no use."""
        now_ms, shard = file.created_ms, self.shard
        if self.upload.segment not in self._engine().segments(shard):
            raise SegmentOvertaken(f"{shard}: the segment at {file.base_offset} has changed")
        now = upload_of(self.upload.segment, self.steps.around.files.files(shard))
        if (now.base_offset, now.end_offset) != (file.base_offset, file.end_offset):
            raise SegmentOvertaken(f"{shard}: other files have offsets {file.base_offset}.. by now")
        gone = CommitFiles(shard=shard, replace=now.early, now_ms=now_ms)
        add = CommitFiles(shard=shard, add=(file,), replace=now.replace, now_ms=now_ms)
        return (gone, add) if now.early else (add,)

    async def _commit(self, file: TierFile, commands: tuple[CommitFiles, ...]) -> int:
        """Submit the commands. After that only the Meta Service knows whether they happened: unless
        it says that they did not, the objects stay."""
        self.steps.enter(self.shard, self.track, Step.COMMIT)
        meta = self.steps.around.meta
        for _ in range(COMMIT_ATTEMPTS - 1):
            try:
                return await meta.submit(*commands)
            except (InvalidInput, NotFound):
                await self.steps.know(await meta.revision())
                commands = self._commands(file)
        return await meta.submit(*commands)
