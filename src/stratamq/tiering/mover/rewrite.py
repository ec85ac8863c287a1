"""Files without what was deleted since they were made.

A deleted record is out of every reader's sight at once: the shard knows. But a file is a table
that others read too, and a user who deletes a record wants it to be gone. So from time to time
files with deleted records in them are rewritten, in the formats they have. The same steps as for a
segment lead there, with the old file in the place of the segment, and the old one is retired by the
commit. A raw segment is made of itself, so that batches nothing was deleted of stay as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from stratamq.engine.contract import ShardTiering
from stratamq.meta.tier.files import CommitFiles, TierFile, TierObject
from stratamq.model.errors import InvalidInput, StrataError
from stratamq.model.shard import split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName
from stratamq.tiering import keys
from stratamq.tiering.converter.requests import Conversion, Converted
from stratamq.tiering.mover.progress import Step, Track
from stratamq.tiering.mover.steps import REFUSALS, FilePart, SegmentOvertaken, Steps, columns_for
from stratamq.tiering.outdated import is_outdated, within

OLD, PARQUET, LOG = "old", "new.parquet", "new.log"


class Gone(NamedTuple):
    """The records of a shard that no reader may see any more. The start was read first: marks below
    it may be forgotten already."""

    start: Offset
    deleted: Sequence[Offset]
    """All that are marked, in their order."""


def outdated(files: Sequence[TierFile], gone: Gone) -> list[TierFile]:
    """Final files in which more is deleted by now than they were made without."""
    return [file for file in files if file.final and is_outdated(file, gone.deleted, gone.start)]


@dataclass(frozen=True, slots=True)
class TierRewrite:
    steps: Steps
    engine: ShardTiering
    topic: Topic
    shard: ShardName
    file: TierFile
    gone: Gone
    track: Track

    async def run(self) -> TierFile:
        """The new file. What fails leaves the old one in its place."""
        token = keys.new_token(self.steps.around.owner)
        async with self.steps.work(f"{self.shard}-{token}") as folder:
            made = await self._convert(folder)
            return await self._put(made, list(self._parts(folder, made, token)))

    async def _convert(self, folder: Path) -> Converted:
        file, config = self.file, self.topic.config
        source = file.log or file.parquet
        assert source, "a file is something"
        self.steps.enter(self.shard, self.track, Step.EXPORT, source.size)
        await self.steps.shipper.download(source, folder / OLD, self.track.count)
        self.steps.enter(self.shard, self.track, Step.CONVERT, file.log_bytes)
        base, end = file.base_offset, file.end_offset
        work = Conversion(
            source=folder / OLD,
            source_end=None if file.log else file.parquet_end,
            parquet=folder / PARQUET if file.parquet else None,
            log=folder / LOG if file.log else None,
            log_is_clean=True,
            partition=split_shard_name(self.shard)[1],
            base_offset=base,
            end_offset=end,
            start=self.gone.start,
            deleted=tuple(within(file, self.gone.deleted)),
            aborted=tuple(self.engine.aborted_transactions(self.shard, base, end)),
            value_format=str(config["lake.value.format"]),
            value_schema=str(config["lake.value.schema"]),
            notes={"stratamq.topic": self.topic.name, "stratamq.shard": self.shard},
        )
        return await self.steps.converters.convert(work, self.track.reached)

    def _parts(self, folder: Path, made: Converted, token: str) -> Iterator[FilePart]:
        place = keys.topic_folder(self.topic.name, self.topic.topic_id)
        partition = split_shard_name(self.shard)[1]
        base, end = self.file.base_offset, self.file.end_offset
        if made.parquet:
            key = keys.data_key(place, partition, base, end, token)
            yield FilePart("parquet", folder / PARQUET, made.parquet, key)
        if made.log:
            raw, log = keys.log_keys(place, partition, base, token), folder / LOG
            index, timeindex = made.sums
            yield FilePart("log", log, made.log, raw.log)
            yield FilePart("index", log.with_suffix(".index"), index, raw.index)
            yield FilePart("timeindex", log.with_suffix(".timeindex"), timeindex, raw.timeindex)

    async def _put(self, made: Converted, parts: Sequence[FilePart]) -> TierFile:
        wanted = [part.key for part in parts]
        with self.steps.flights.of(wanted):
            try:
                stored = await self.steps.ship(self.shard, self.track, parts)
                new = self._new_file(made, stored)
                if self.file not in self.steps.around.files.files(self.shard):
                    raise SegmentOvertaken(
                        f"{self.shard}: the file at {self.file.base_offset} has changed"
                    )
                command = CommitFiles(
                    shard=self.shard,
                    add=(new,),
                    replace=(self.file.base_offset,),
                    replaced_keys=self.file.data_keys,
                    now_ms=new.created_ms,
                )
            except StrataError:
                await self.steps.shipper.discard(wanted)
                raise
            revision = await self._commit(command, wanted)
        self.steps.enter(self.shard, self.track, Step.ATTACH)
        await self.steps.know(revision)
        self.steps.around.attach(self.shard)
        return command.add[0]

    def _new_file(self, made: Converted, stored: Mapping[str, TierObject]) -> TierFile:
        return replace(
            self.file,
            parquet=stored.get("parquet"),
            parquet_end=made.parquet_end,
            log=stored.get("log"),
            index=stored.get("index"),
            timeindex=stored.get("timeindex"),
            rows=made.rows,
            batches=made.batches,
            min_timestamp=made.min_timestamp,
            max_timestamp=made.max_timestamp,
            unparsed=made.unparsed,
            misfits=made.misfits,
            deleted=len(within(self.file, self.gone.deleted)),
            start=self.gone.start,
            columns=columns_for(self.topic) if made.parquet else "",
            created_ms=self.steps.around.clock.now_ms(),
            written_ms=self.file.largest_timestamp,
        )

    async def _commit(self, command: CommitFiles, wanted: Sequence[str]) -> int:
        self.steps.enter(self.shard, self.track, Step.COMMIT)
        try:
            return await self.steps.around.meta.submit(command)
        except REFUSALS as error:
            await self.steps.shipper.discard(wanted)
            if isinstance(error, InvalidInput):
                raise SegmentOvertaken(str(error)) from error
            raise
