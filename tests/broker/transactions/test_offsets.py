"""Offsets that are committed in a transaction count from its commit on, and never before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratamq.log.kv import RocksKV
from stratamq.meta.groups import OffsetMeta
from stratamq.meta.store import entity_of
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.transactions.rig import GROUP, Rig

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
STORES = ["meta", "cache"]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_count_when_the_transaction_commits(
    tmp_path: Path, store: str, commit: bool
) -> None:
    rig = Rig(tmp_path, offset_store=store)
    await rig.start()
    who = await rig.producer()
    assert await rig.add_group(who) == 0
    assert await rig.commit_offset(who, 5) == 0
    assert (await rig.committed_offset()).committed_offset == -1
    assert (await rig.committed_offset(stable=True)).error_code == UNSTABLE
    await rig.restart()
    assert (await rig.committed_offset(stable=True)).error_code == UNSTABLE
    assert (await rig.end(who, commit=commit)).error_code == 0
    told = await rig.committed_offset(stable=True)
    assert (told.error_code, told.committed_offset) == (0, 5 if commit else -1)
    await rig.restart()
    told = await rig.committed_offset(stable=True)
    assert (told.error_code, told.committed_offset) == (0, 5 if commit else -1)
    await rig.stop()


async def test_offsets_that_are_kept_elsewhere_are_durable_when_the_transaction_ends(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path / "data", offset_store="cache", offset_flush_interval_ms=3_600_000)
    await rig.start()
    who = await rig.producer()
    await rig.add_group(who)
    await rig.commit_offset(who, 5)
    assert (await rig.end(who)).error_code == 0
    shutil.copytree(tmp_path / "data" / "offsets", tmp_path / "as after kill -9")
    await rig.stop()
    kv = RocksKV(tmp_path / "as after kill -9")
    stored = [entity_of(key, value) for key, value in kv.scan(b"o", b"p")]
    kv.close()
    assert [(one.group, one.offset) for one in stored if isinstance(one, OffsetMeta)] == [
        (GROUP, 5)
    ]


async def test_other_partitions_are_stable(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add_group(who)
    await rig.commit_offset(who, 5)
    assert (await rig.committed_offset(stable=True, partition=1)).error_code == 0


@pytest.mark.parametrize("version", range(5))
async def test_a_group_that_was_not_added_takes_nothing(rig: Rig, version: int) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    code = ErrorCode.INVALID_TXN_STATE if version < 4 else ErrorCode.TRANSACTION_ABORTABLE
    assert await rig.commit_offset(who, 5, version=version) == code
    await rig.end(who)
    assert (await rig.committed_offset()).committed_offset == -1


async def test_newer_producers_leave_adding_the_group_to_us(rig: Rig) -> None:
    who = await rig.producer()
    assert await rig.commit_offset(who, 5, version=5) == 0
    assert (await rig.end(who, version=5)).error_code == 0
    assert (await rig.committed_offset()).committed_offset == 5


async def test_what_a_member_may_not_commit_is_not_committed(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add_group(who)
    told = await rig.commit_offset(who, 5, generation_id=3, member_id="nobody")
    assert told == ErrorCode.ILLEGAL_GENERATION
    assert await rig.commit_offset(who, -1) == ErrorCode.INVALID_REQUEST
    assert await rig.commit_offset(who, 5, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await rig.end(who)
    assert (await rig.committed_offset()).committed_offset == -1


async def test_a_group_needs_a_name(rig: Rig) -> None:
    who = await rig.producer()
    assert await rig.add_group(who, "") == ErrorCode.INVALID_GROUP_ID


async def test_offsets_of_a_topic_that_goes_meanwhile_do_not_hold_up_the_end(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add_group(who)
    await rig.commit_offset(who, 5)
    await rig.services.topics.delete("t")
    assert (await rig.end(who)).error_code == 0


async def test_how_long_the_text_beside_an_offset_may_be_can_be_altered(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add_group(who)
    assert await rig.commit_offset(who, 1) == 0
    rig.config.override(every_broker={"offset.metadata.max.bytes": 0}, this_broker={})
    assert await rig.commit_offset(who, 2) == ErrorCode.OFFSET_METADATA_TOO_LARGE
