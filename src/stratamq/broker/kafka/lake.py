"""DescribeLake, FlushLake and CommitLake, which Kafka does not have: history and tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.admin.task_pool import TaskPool
from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import LATE, ApiError, api_error
from stratamq.broker.kafka.turns import paced
from stratamq.meta.tier.files import ParquetEnd, Replaced, TierFile, TierObject
from stratamq.model.errors import AnswerTooLarge, StrataError
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeRequest,
    CommitLakeResponse,
    CommitLakeTopic,
    CommittedLake,
    DescribedLake,
    DescribeLakeRequest,
    DescribeLakeResponse,
    FlushedLake,
    FlushLakeRequest,
    FlushLakeResponse,
    LakeFile,
    LakePartition,
    LakeTopic,
    MadeFile,
)


class StoreAddress(NamedTuple):
    """Where the object store is, for clients that have credentials of their own."""

    url: str
    s3_endpoint: str = ""
    s3_region: str = ""
    s3_path_style: bool = False


class LakeFlush(NamedTuple):
    """What a flush made visible."""

    files: int
    rows: int


class TierRun(NamedTuple):
    """What was done of a topic's history when a client asked for it."""

    moved_segments: int
    moved_bytes: int
    freed_bytes: int
    rewritten_files: int


class WaitingSegments(NamedTuple):
    """Segments of a shard that are due to move and have not begun to."""

    segments: int
    size_bytes: int


class MovingSegment(NamedTuple):
    """A segment on its way: at which step, and how far in it."""

    step: str
    done_bytes: int
    total_bytes: int


class Lake(Protocol):
    """What these APIs need of tiering. It is given to them, since few nodes need all of it."""

    @property
    def store(self) -> StoreAddress: ...

    def files(self, shard: ShardName) -> tuple[TierFile, ...]:
        """What the object store has of a shard, oldest first."""

    def table(self, topic: Topic) -> str | None:
        """The name of the topic's Iceberg table, if it is one."""

    def shown(self, topic: Topic) -> Collection[str]:
        """The keys of the files that the topic's table shows, as it was last written."""

    def moving(self, shard: ShardName) -> MovingSegment | None:
        """The segment of the shard that is being moved just now."""

    def waiting(self, shard: ShardName) -> WaitingSegments: ...

    @property
    def trouble(self) -> str | None:
        """What went wrong last, if something did."""

    async def flush(self, topic: Topic) -> LakeFlush:
        """Make all that is decided visible in the topic's table."""

    async def run(self, topic: Topic) -> TierRun:
        """Do what is due of the topic's history now. Callers of one topic wait for one run."""

    async def commit(self, file: TierFile, replaced: Replaced) -> None:
        """Replace files by one that was written elsewhere, such as by a Spark job."""


PARTITION_BYTES = 400
FILE_BYTES = 700
"""About what they take in an answer, first as objects and then encoded."""


class LakeApis(Family):
    def __init__(self, services: Services, lake: Lake) -> None:
        self._services, self._lake = services, lake
        self._tasks = TaskPool()

    def handlers(self) -> Mapping[type, Handled]:
        return {
            DescribeLakeRequest: Handled(self.describe),
            FlushLakeRequest: Handled(self.flush),
            CommitLakeRequest: Handled(self.commit),
        }

    async def stop(self) -> None:
        await self._tasks.stop()

    # -- DescribeLake: where a topic's records are ----------------------------------------------

    async def describe(self, request: DescribeLakeRequest, caller: Caller) -> DescribeLakeResponse:
        answer = self._services.answers.begin()
        return DescribeLakeResponse(
            topics=[await self._topic(one.name, answer) async for one in paced(request.topics)],
            time_ms=self._services.clock.now_ms(),
        )

    async def _topic(self, name: str, answer: LongAnswer) -> DescribedLake:
        try:
            topic = self._services.broker_cache.topic(name)
            partitions = [
                await self._partition(topic, one, answer)
                async for one in paced(range(topic.partitions))
            ]
        except StrataError as error:
            code, message = api_error(error)
            return DescribedLake(name=name, error_code=code, error_message=message)
        store = self._lake.store
        return DescribedLake(
            name=name,
            topic_id=uuid_of(topic),
            store_url=store.url,
            s3_endpoint=store.s3_endpoint,
            s3_region=store.s3_region,
            s3_path_style=store.s3_path_style,
            value_format=str(topic.config["lake.value.format"]),
            value_schema=str(topic.config["lake.value.schema"]),
            log_append_time=topic.config["message.timestamp.type"] == "LogAppendTime",
            table=self._lake.table(topic),
            trouble=self._lake.trouble,
            partitions=partitions,
        )

    async def _partition(self, topic: Topic, number: int, answer: LongAnswer) -> LakePartition:
        shard = shard_name(topic.topic_id, number)
        try:
            handle, _ = await self._services.partitions.led(topic.name, number)
            driver = await self._services.drivers.driver(topic.config.storage_name)
            # In this order: what leaves the disks meanwhile is seen twice, never missed.
            local_start = handle.local_start()
            files = self._lake.files(shard)
            await answer.add(PARTITION_BYTES + len(files) * FILE_BYTES)
            start, committed, _ = handle.offsets()
            moving, waiting = self._lake.moving(shard), self._lake.waiting(shard)
            segments = await driver.segments(shard)
            cold_end = files[-1].end_offset if files else start
            return LakePartition(
                partition_index=number,
                start_offset=start,
                local_start_offset=local_start,
                high_watermark=committed,
                last_stable_offset=handle.last_stable(),
                local_bytes=sum(segment.size_bytes for segment in segments),
                moving=moving.step if moving else None,
                moving_done=moving.done_bytes if moving else 0,
                moving_total=moving.total_bytes if moving else 0,
                waiting_segments=waiting.segments,
                waiting_bytes=waiting.size_bytes,
                deleted=await driver.deleted(shard, start, cold_end),
                files=_files(files, self._lake.shown(topic)),
            )
        except AnswerTooLarge:
            raise  # a topic is described whole, or refused
        except StrataError as error:
            return LakePartition(partition_index=number, error_code=api_error(error).code)

    # -- FlushLake: what is in the log becomes visible in the table, or what is due moves -------

    async def flush(self, request: FlushLakeRequest, caller: Caller) -> FlushLakeResponse:
        answers = await self._tasks.each(
            request.topics,
            self._run_topic if request.moves else self._flush_topic,
            request.timeout_ms,
            lambda one: self._flush_failed(one, LATE),
        )
        return FlushLakeResponse(topics=answers)

    async def _flush_topic(self, wanted: LakeTopic) -> FlushedLake:
        try:
            done = await self._lake.flush(self._services.broker_cache.topic(wanted.name))
        except StrataError as error:
            return self._flush_failed(wanted, api_error(error))
        return FlushedLake(name=wanted.name, files=done.files, rows=done.rows)

    async def _run_topic(self, wanted: LakeTopic) -> FlushedLake:
        try:
            done = await self._lake.run(self._services.broker_cache.topic(wanted.name))
        except StrataError as error:
            return self._flush_failed(wanted, api_error(error))
        return FlushedLake(name=wanted.name, **done._asdict())

    def _flush_failed(self, wanted: LakeTopic, why: ApiError) -> FlushedLake:
        return FlushedLake(name=wanted.name, error_code=why.code, error_message=why.message)

    # -- CommitLake: files that a job wrote of a topic's history replace others -----------------

    async def commit(self, request: CommitLakeRequest, caller: Caller) -> CommitLakeResponse:
        """Safe to repeat: a file that is there already stays there."""
        return CommitLakeResponse(topics=[await self._commit_topic(one) for one in request.topics])

    async def _commit_topic(self, wanted: CommitLakeTopic) -> CommittedLake:
        try:
            topic = self._services.broker_cache.topic(wanted.name)
            await self._services.partitions.led(topic.name, wanted.partition_index)
            shard = shard_name(topic.topic_id, wanted.partition_index)
            replaced = Replaced(tuple(map(Offset, wanted.replace)), frozenset(wanted.objects))
            await self._lake.commit(_tier_file(shard, wanted.file), replaced)
        except StrataError as error:
            code, message = api_error(error)
            return CommittedLake(name=wanted.name, error_code=code, error_message=message)
        return CommittedLake(name=wanted.name)


def _files(files: Sequence[TierFile], shown: Collection[str]) -> list[LakeFile]:
    return [
        LakeFile(
            base_offset=file.base_offset,
            end_offset=file.end_offset,
            final=file.final,
            parquet_key=file.parquet.key if file.parquet else None,
            parquet_size=file.parquet.size if file.parquet else 0,
            log_key=file.log.key if file.log else None,
            log_size=file.log.size if file.log else 0,
            rows=file.rows,
            min_timestamp=file.min_timestamp,
            max_timestamp=file.max_timestamp,
            log_bytes=file.log_bytes,
            unparsed=file.unparsed,
            misfits=file.misfits,
            columns=file.columns,
            start=file.start,
            deleted=file.deleted,
            pending=file.parquet is not None and file.parquet.key not in shown,
        )
        for file in files
    ]


def _tier_file(shard: ShardName, file: MadeFile) -> TierFile:
    end = ParquetEnd(file.end_size, file.end_crc, file.index_size, file.index_crc)
    return TierFile(
        shard=shard,
        base_offset=Offset(file.base_offset),
        end_offset=Offset(file.end_offset),
        final=True,
        parquet=None if file.key is None else TierObject(file.key, file.size, file.crc),
        parquet_end=None if file.key is None else end,
        log=None if file.log_key is None else TierObject(file.log_key, file.log_size, file.log_crc),
        rows=file.rows,
        batches=file.batches,
        min_timestamp=TimestampMs(file.min_timestamp),
        max_timestamp=TimestampMs(file.max_timestamp),
        unparsed=file.unparsed,
        misfits=file.misfits,
        deleted=file.deleted,
        start=Offset(file.start),
        columns=file.columns,
    )
