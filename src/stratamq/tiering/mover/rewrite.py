"""Files without what was deleted since they were made.

A deleted record is out of every reader's sight at once: the shard knows. But a file is a table
that others read too, so from time to time files with deleted records in them are made anew. The
same steps as for a segment lead there, with the old file in the place of the segment, and the old
one is retired by the commit. A raw segment is left as it is: only the node reads it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stratamq.meta.tier import CommitFiles, TierFile, TierObject
from stratamq.model.errors import StrataError
from stratamq.model.shard import split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName
from stratamq.tiering import keys
from stratamq.tiering.mover.contract import TierEngine
from stratamq.tiering.mover.conversion import Conversion, Converted
from stratamq.tiering.mover.progress import Step, Track
from stratamq.tiering.mover.steps import REFUSALS, Overtaken, Steps, columns_for


def outdated(files: Sequence[TierFile], deleted: Sequence[Offset]) -> list[TierFile]:
    """Final files in which more is deleted by now than they were made without. Marks are kept as
    long as a file may have the record, so their number tells."""
    return [
        file
        for file in files
        if file.final and file.parquet and len(within(file, deleted)) > file.deleted
    ]


def within(file: TierFile, deleted: Sequence[Offset]) -> Sequence[Offset]:
    first, last = bisect_left(deleted, file.base_offset), bisect_left(deleted, file.end_offset)
    return deleted[first:last]


@dataclass(frozen=True, slots=True)
class Rewrite:
    steps: Steps
    engine: TierEngine
    topic: Topic
    shard: ShardName
    file: TierFile
    deleted: Sequence[Offset]
    """All of the shard's, in their order."""
    track: Track

    async def run(self) -> TierFile:
        """The new file. What fails leaves the old one in its place."""
        token = keys.new_token(self.steps.around.owner)
        async with self.steps.work(f"{self.shard}-{token}") as folder:
            made = await self._convert(folder)
            return await self._put(folder / "new.parquet", made, self._key(token))

    def _enter(self, step: Step, total_bytes: int = 0) -> None:
        self.track.enter(step, total_bytes)
        self.steps.on_step(self.shard, step)

    def _key(self, token: str) -> str:
        folder = keys.topic_folder(self.topic.name, self.topic.topic_id)
        partition = split_shard_name(self.shard)[1]
        return keys.data_key(folder, partition, self.file.base_offset, self.file.end_offset, token)

    async def _convert(self, folder: Path) -> Converted:
        file, config = self.file, self.topic.config
        assert file.parquet, "only such files are made anew"
        self._enter(Step.EXPORT, file.parquet.size)
        await self.steps.shipper.download(file.parquet, folder / "old.parquet", self.track.count)
        self._enter(Step.CONVERT, file.log_bytes)
        base, end = file.base_offset, file.end_offset
        work = Conversion(
            source=folder / "old.parquet",
            source_end=file.parquet_end,
            parquet=folder / "new.parquet",
            partition=split_shard_name(self.shard)[1],
            base_offset=base,
            end_offset=end,
            start=self.engine.offsets(self.shard).start,
            deleted=tuple(within(file, self.deleted)),
            aborted=tuple(self.engine.aborted_transactions(self.shard, base, end)),
            value_format=str(config["lake.value.format"]),
            value_schema=str(config["lake.value.schema"]),
            notes={"stratamq.topic": self.topic.name, "stratamq.shard": self.shard},
        )
        return await self.steps.converters.convert(work, self.track.reached)

    async def _put(self, path: Path, made: Converted, key: str) -> TierFile:
        assert made.parquet, "it was asked for"
        with self.steps.flights.of([key]):
            try:
                self._enter(Step.UPLOAD, made.parquet.size)
                sums, count = made.parquet, self.track.count
                stored = await self.steps.shipper.upload(key, path, sums, count)
                self._enter(Step.VERIFY, made.parquet.size)
                await self.steps.shipper.verify(stored, count)
                command = self._command(self._new(made, stored))
            except StrataError:
                await self.steps.shipper.discard([key])
                raise
            revision = await self._commit(command, key)
        self._enter(Step.ATTACH)
        await self.steps.know(revision)
        self.steps.around.attach(self.shard)
        return command.add[0]

    def _new(self, made: Converted, stored: TierObject) -> TierFile:
        return replace(
            self.file,
            parquet=stored,
            parquet_end=made.parquet_end,
            rows=made.rows,
            batches=made.batches,
            min_timestamp=made.min_timestamp,
            max_timestamp=made.max_timestamp,
            unparsed=made.unparsed,
            misfits=made.misfits,
            deleted=len(within(self.file, self.deleted)),
            columns=columns_for(self.topic),
            created_ms=self.steps.around.clock.now_ms(),
        )

    def _command(self, new: TierFile) -> CommitFiles:
        if self.file not in self.steps.around.files.files(self.shard):
            raise Overtaken(f"{self.shard}: the file at {self.file.base_offset} has changed")
        bases = (self.file.base_offset,)
        return CommitFiles(shard=self.shard, add=(new,), replace=bases, now_ms=new.created_ms)

    async def _commit(self, command: CommitFiles, key: str) -> int:
        self._enter(Step.COMMIT)
        try:
            return await self.steps.around.meta.submit(command)
        except REFUSALS:
            await self.steps.shipper.discard([key])
            raise
