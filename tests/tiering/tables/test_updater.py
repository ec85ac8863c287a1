"""Tables that follow what happens to their topics, by themselves."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.model.errors import InvalidConfig, ObjectNotFound, StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import Offset, TimestampMs, TopicId
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.tables.early import Visible
from tests.lake.tables.readers import Found
from tests.tiering.mover.rig import SHARD, TIERED, TOPIC_ID
from tests.tiering.tables.rig import TableRig
from tests.waiting import let_run, until

ROOMY = {"segment.bytes": 1 << 20, "flush": "os"}


@pytest.fixture
async def rig(tmp_path: Path, directory_options: StoreOptions) -> AsyncIterator[TableRig]:
    async with TableRig(tmp_path, directory_options, merge_files=3) as made:
        yield made


async def shows(rig: TableRig, topic: Topic, rows: int) -> Found:
    """Wait until manifest and table have so many rows."""

    async def look() -> bool:
        try:
            return (await rig.manifest(topic)).rows == rows
        except ObjectNotFound:
            return False

    await until(look)
    await rig.updater.write(topic)  # behind the one that wrote the manifest
    found = await rig.table(topic)
    assert found.rows == rows
    return found


async def fill(rig: TableRig, base: int, end: int) -> None:
    await rig.engine.batch_write(
        SHARD,
        [
            Record(key=b"k", value=b'{"id":%d}' % number, timestamp=TimestampMs(1_000 + number))
            for number in range(base, end)
        ],
    )


async def test_a_flush_shows_everything_at_once(rig: TableRig) -> None:
    topic = await rig.create(ROOMY, partitions=2)
    await rig.fill(10)
    assert await rig.updater.flush(topic) == Visible(1, 10)
    assert (await rig.table(topic)).rows == (await rig.manifest(topic)).rows == 10
    assert await rig.updater.flush(topic) == Visible()


async def test_a_file_is_shown_when_the_table_has_it(rig: TableRig) -> None:
    """In between it is stored, and no reader of the table finds it."""
    topic = await rig.create(ROOMY)
    await rig.fill(10)
    await rig.early.flush(topic, SHARD)
    (file,) = rig.cache.files(SHARD)
    assert file.parquet
    assert file.parquet.key not in rig.updater.shown(topic.topic_id)
    await rig.updater.write(topic)
    assert set(rig.updater.shown(topic.topic_id)) == {file.parquet.key}
    assert (await rig.table(topic)).rows == 10


async def test_a_topic_without_tables_says_so(rig: TableRig) -> None:
    topic = await rig.create({**ROOMY, "tier.format": "log"})
    with pytest.raises(InvalidConfig, match=r"has no table: its tier\.format is log"):
        await rig.updater.flush(topic)


async def test_tables_show_the_same_rows_through_all_that_happens(rig: TableRig) -> None:
    """Flushes, merges, final files, a new column, retention: rows and sums stay what they were."""
    topic = await rig.create({**TIERED, "segment.bytes": 1 << 20})
    await rig.updater.start()
    await fill(rig, 0, 20)
    await rig.updater.flush(topic)
    first = await rig.table(topic)
    for number in range(2, 6):
        await fill(rig, 10 * number, 10 * number + 10)
        await rig.updater.flush(topic)
    before = await rig.table(topic)
    assert (first.rows, before.rows) == (20, 60)
    assert len(rig.files()) < 5, "some were merged"

    await rig.engine.roll(SHARD)
    await rig.mover.run_once()
    assert [file.final for file in rig.files()] == [True]
    assert await shows(rig, topic, 60) == before

    schema = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}]}
    typed = {"lake.value.format": "json", "lake.value.schema": json.dumps(schema)}
    changed = Topic(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=1,
        config=TopicConfig.of({**topic.config.given, **typed}),
    )
    rig.topics[:] = [changed]
    await rig.updater.write(changed)
    assert await rig.table(topic) == before
    await fill(rig, 60, 70)
    await rig.updater.flush(changed)
    assert (await rig.table(topic)).rows == 70

    await rig.engine.trim(SHARD, Offset(60))
    await rig.mover.run_once()
    assert (await shows(rig, topic, 10)).rows == 10


async def test_what_others_commit_is_shown_without_being_asked_for(rig: TableRig) -> None:
    topic = await rig.create(TIERED)
    await rig.updater.start()
    rows = await rig.fill(40)
    await rig.mover.run_once()
    final = sum(file.rows for file in rig.files())
    assert 0 < final <= len(rows)
    await shows(rig, topic, final)


async def test_a_topic_that_asks_for_it_is_flushed_by_itself(rig: TableRig) -> None:
    topic = await rig.create({**ROOMY, "lake.flush.interval.ms": 50})
    await rig.updater.start()
    await rig.fill(10)
    await shows(rig, topic, 10)
    await rig.fill(5)
    await shows(rig, topic, 15)


async def test_tables_left_behind_by_a_crash_are_made_good(
    tmp_path: Path, directory_options: StoreOptions
) -> None:
    async with TableRig(tmp_path, directory_options) as rig:
        topic = await rig.create(ROOMY)
        await rig.fill(10)
        await rig.early.flush(topic, SHARD)  # and nobody writes the table
    async with TableRig(tmp_path, directory_options) as rig:
        await rig.updater.start()
        await shows(rig, topic, 10)


async def test_a_topic_that_is_deleted_leaves_nothing(
    tmp_path: Path, directory_options: StoreOptions
) -> None:
    async with TableRig(tmp_path, directory_options) as rig:
        topics = [
            await rig.create(ROOMY, name=name, topic_id=TopicId(number * 32))
            for name, number in (("now", "a"), ("later", "b"))
        ]
        for topic in topics:
            await rig.fill(3, shard=rig.shard_of(topic))
            await rig.updater.flush(topic)
        await rig.updater.start()
        await rig.delete(topics[0])

        async def only_one_is_left() -> bool:
            found = await rig.objects()
            return not any(key.startswith("now.") and "/data/" not in key for key in found)

        await until(only_one_is_left)
        await rig.updater.stop()
        rig.updater._writer = rig.new_writer()  # as if the node were down while it goes
        await rig.delete(topics[1])
    async with TableRig(tmp_path, directory_options) as rig:
        await rig.updater.start()

        async def none_is_left() -> bool:
            return not any("/metadata/" in key for key in await rig.objects())

        await until(none_is_left)


# -- failures --------------------------------------------------------------------------------------


async def test_what_fails_is_tried_again_and_said_once(
    rig: TableRig, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await rig.create(ROOMY)
    await rig.fill(10)
    ask, failures = rig.writer.ask, 4

    async def failing(request: object) -> object:
        nonlocal failures
        failures -= 1
        if failures > 0:
            raise StoreUnavailable("down")
        return await ask(request)  # type: ignore[arg-type]

    rig.writer.ask = failing  # type: ignore[assignment]
    with caplog.at_level(logging.WARNING, "stratamq"):
        await rig.early.flush(topic, SHARD)
        await rig.updater.start()
        await shows(rig, topic, 10)
    said = [record.message for record in caplog.records if "orders" in record.message]
    assert said == ["table orders is tried again: down"]


async def test_a_flush_that_fails_says_so_to_who_asked(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    await rig.fill(10)
    ask = rig.writer.ask

    async def failing(request: object) -> None:
        raise StoreUnavailable("down")

    rig.writer.ask = failing  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await rig.updater.flush(topic)
    rig.writer.ask = ask  # type: ignore[method-assign]
    assert await rig.updater.flush(topic) == Visible(), "the files are there already"
    assert (await rig.table(topic)).rows == 10


async def test_kill_9_of_the_writer_at_any_time_loses_and_doubles_nothing(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    await rig.updater.start()
    rows = 0
    for number in range(6):
        await rig.fill(5, seed=number)
        rows += 5
        await rig.early.flush(topic, SHARD)
        await let_run(0.03 * number)
        if rig.writer.pid:
            os.kill(rig.writer.pid, signal.SIGKILL)
    found = await shows(rig, topic, rows)
    assert found.rows == rows
    assert (await rig.manifest(topic)).topic_id == TOPIC_ID
