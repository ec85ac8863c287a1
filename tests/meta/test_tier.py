"""Files on object storage: what a shard's history is made of, and what becomes of objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.meta.limits import MetaLimits, check_limits
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.service import MetaService
from stratamq.meta.state import MetaState
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.tier.cache import TierCache
from stratamq.meta.tier.files import (
    CommitFiles,
    DropFiles,
    ForgetObjects,
    ParquetEnd,
    RetiredObject,
    TierFile,
    TierObject,
)
from stratamq.meta.topics import DeleteTopic, RemoveTopic
from stratamq.model.errors import CapacityExceeded, InvalidInput, NotFound, ShardNotFound
from stratamq.model.shard import shard_name
from stratamq.model.types import NO_TIMESTAMP, Offset, ShardName, TimestampMs
from tests.meta.support import ME, T1, after, creating, topic, with_topic

SHARD = shard_name(T1, 0)
NOW = TimestampMs(1000)


def file(base: int, end: int, *, final: bool = True, name: str = "") -> TierFile:
    key = name or f"{base}-{end}-{final}"
    return TierFile(
        shard=SHARD,
        base_offset=Offset(base),
        end_offset=Offset(end),
        final=final,
        parquet=TierObject(key, 10, 7),
        parquet_end=ParquetEnd(1, 2, 3, 4),
        rows=end - base,
    )


def commit(*add: TierFile, replacing: tuple[int, ...] = (), at: int = NOW) -> CommitFiles:
    bases = tuple(Offset(base) for base in replacing)
    return CommitFiles(shard=SHARD, add=add, replace=bases, now_ms=TimestampMs(at))


def with_files(*files: TierFile) -> MetaState:
    return after(commit(*files), state=with_topic())


def test_files_are_kept_in_the_order_of_their_offsets() -> None:
    state = after(
        commit(file(0, 10)), commit(file(30, 40)), commit(file(10, 30)), state=with_topic()
    )
    assert [one.base_offset for one in state.files_of(SHARD)] == [0, 10, 30]


def test_repeating_a_commit_changes_nothing() -> None:
    small = [file(0, 5, final=False), file(5, 10, final=False)]
    whole = commit(file(0, 10), replacing=(0, 5))
    once = after(whole, state=with_files(*small))
    assert after(whole, state=once) == once


@pytest.mark.parametrize(("base", "end"), [(0, 10), (5, 6), (9, 12), (0, 1)])
def test_files_do_not_overlap(base: int, end: int) -> None:
    state = with_files(file(0, 10))
    with pytest.raises(InvalidInput, match="overlap"):
        after(commit(file(base, end, name="other")), state=state)


def test_what_is_replaced_must_be_there() -> None:
    with pytest.raises(NotFound, match="offset 5"):
        after(commit(file(0, 10), replacing=(5,)), state=with_topic())


def test_what_is_replaced_must_be_what_it_was() -> None:
    """Somebody who made a file of another must not replace one that was made since."""
    before, since, made = (file(0, 10, name=name) for name in ("before", "since", "made"))
    state = with_files(before)
    meant = replace(commit(made, replacing=(0,)), replaced_keys=before.data_keys)
    assert list(after(meant, state=state).files_of(SHARD)) == [made]
    with pytest.raises(InvalidInput, match="rewritten since"):
        after(commit(since, replacing=(0,)), meant, state=state)


def test_a_replacement_holds_all_that_it_replaces() -> None:
    state = with_files(file(0, 10))
    with pytest.raises(InvalidInput, match="would be lost"):
        after(commit(file(0, 9), replacing=(0,)), state=state)


def test_a_final_file_goes_for_final_ones_alone() -> None:
    state = with_files(file(0, 10))
    for instead in ((), (file(0, 10, final=False),)):
        with pytest.raises(InvalidInput, match="would be lost"):
            after(commit(*instead, replacing=(0,)), state=state)
    halves = file(0, 5, name="a"), file(5, 10, name="b")
    assert after(commit(*halves, replacing=(0,)), state=state).files_of(SHARD) == halves


def test_a_file_that_is_not_final_may_go_without_a_replacement() -> None:
    state = with_files(file(0, 10, final=False))
    assert not after(commit(replacing=(0,)), state=state).files_of(SHARD)


@pytest.mark.parametrize(
    "bad",
    [
        replace(file(0, 10), parquet=None, parquet_end=None),
        replace(file(0, 10), parquet_end=None),
        replace(file(0, 10), end_offset=Offset(0)),
        replace(file(0, 10), base_offset=Offset(-1)),
        replace(file(0, 10), shard=ShardName("another_0")),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(bad: TierFile) -> None:
    with pytest.raises(InvalidInput):
        after(commit(bad), state=with_topic())


def test_objects_of_replaced_files_are_retired() -> None:
    state = after(commit(file(0, 10), replacing=(0,)), state=with_files(file(0, 5, final=False)))
    retired = RetiredObject(object_key="0-5-False", size=10, since_ms=NOW)
    assert dict(state.retired.items()) == {"0-5-False": retired}
    assert not after(ForgetObjects(object_keys=("0-5-False", "?")), state=state).retired


def test_an_object_that_goes_on_being_used_is_not_retired() -> None:
    both = replace(file(0, 10), log=TierObject("raw", 5, 6))
    state = after(commit(both, replacing=(0,)), state=with_files(file(0, 10)))
    assert not state.retired
    again = after(commit(file(0, 10), replacing=(0,)), state=state)
    assert set(again.retired) == {"raw"}
    assert not after(commit(both, replacing=(0,)), state=again).retired


def test_files_below_the_start_are_dropped_whole_ones_only() -> None:
    state = with_files(file(0, 10), file(10, 20))
    command = DropFiles(shard=SHARD, below=Offset(19), now_ms=NOW)
    after_it = after(command, state=state)
    assert [one.base_offset for one in after_it.files_of(SHARD)] == [10]
    assert set(after_it.retired) == {"0-10-True"}


def test_a_deleted_topic_leaves_objects_that_may_go_at_once() -> None:
    state = after(DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1), state=with_files(file(0, 10)))
    assert not state.files
    assert state.retired["0-10-True"].since_ms == NO_TIMESTAMP


def test_an_unknown_shard_has_no_files() -> None:
    with pytest.raises(ShardNotFound):
        after(commit(file(0, 10)), state=MetaState())


def test_the_number_of_files_is_limited() -> None:
    state, limits = with_files(file(0, 10)), MetaLimits(files_max=1)
    with pytest.raises(CapacityExceeded):
        check_limits(state, commit(file(10, 20)), limits)
    check_limits(state, commit(file(0, 20), replacing=(0,)), limits)


async def test_the_cache_follows_and_tells(tmp_path: Path) -> None:
    service = MetaService(RocksMetaStore(tmp_path))
    await service.open()
    cache = TierCache(service)
    told: list[ShardName] = []
    cache.listen(told.append)
    await cache.start()
    try:
        one = topic()
        await service.submit(RegisterNode(node_id=ME, address="n:1"), *creating(one))
        await service.submit(commit(file(0, 5, final=False)))
        revision = await service.submit(commit(file(0, 10), replacing=(0,)))
        await cache.wait_for_revision(revision, 5)
        assert [file.end_offset for file in cache.files(SHARD)] == [10]
        assert set(cache.retired()) == {"0-5-False"}
        assert set(told) == {SHARD} == set(cache.shards())
        drop = DropFiles(shard=SHARD, below=Offset(10), now_ms=NOW)
        revision = await service.submit(drop, ForgetObjects(object_keys=("0-5-False",)))
        await cache.wait_for_revision(revision, 5)
        assert (cache.files(SHARD), cache.shards()) == ((), [])
        assert set(cache.retired()) == {"0-10-True"}
    finally:
        await cache.stop()
        await service.close()
