"""Requests for one transactional id that come at the same time do not undo each other."""

from __future__ import annotations

import asyncio

from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.transactions.rig import GROUP, ID, Rig


async def test_producers_that_begin_at_once_get_an_epoch_each(rig: Rig) -> None:
    told = await asyncio.gather(*(rig.producer() for _ in range(5)))
    assert len({one.producer_id for one in told}) == 1
    assert sorted(one.epoch for one in told) == list(range(5))


async def test_what_is_added_at_once_is_all_there(rig: Rig) -> None:
    who = await rig.producer()
    adding = [rig.add(who, number) for number in range(3)]
    assert await asyncio.gather(*adding, rig.add_group(who)) == [[0], [0], [0], 0]
    one = rig.coordinator.find(ID)
    assert one is not None
    assert (len(one.shards), one.groups) == (3, {GROUP})


async def test_offsets_that_come_with_the_end_are_in_it_or_refused(rig: Rig) -> None:
    who = await rig.producer()
    late = {ErrorCode.INVALID_TXN_STATE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    for number in range(10):
        await rig.add_group(who)
        told, ended = await asyncio.gather(rig.commit_offset(who, number), rig.end(who))
        assert ended.error_code == 0
        found = await rig.committed_offset(stable=True)
        assert found.error_code == 0, "nothing is left that no transaction will end"
        assert (told == 0 and found.committed_offset == number) or told in late
