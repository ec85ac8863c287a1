"""The leader-epoch history as pure functions, against a log that is a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.log import epochs
from stratamq.log.contract import EpochStart
from stratamq.model.errors import StorageError
from stratamq.model.types import LeaderEpoch, Offset


@st.composite
def logs(draw: st.DrawFn) -> list[int]:
    """The epoch of each record, from offset 0 on; epochs never fall."""
    steps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 3]), max_size=25))
    epoch, found = draw(st.integers(0, 2)), []
    for step in steps:
        epoch += step
        found.append(epoch)
    return found


def history_of(log: list[int], start: int = 0) -> epochs.History:
    history: epochs.History = ()
    for offset, epoch in enumerate(log):
        history = epochs.extended(history, LeaderEpoch(epoch), Offset(offset))
    return epochs.cut_start(history, Offset(start)) if start else history


def epoch_at(history: epochs.History, offset: int) -> int:
    return next(e.epoch for e in reversed(history) if e.start_offset <= offset)


@given(logs())
def test_the_history_knows_every_record(log: list[int]) -> None:
    history = history_of(log)
    assert [epoch_at(history, offset) for offset in range(len(log))] == log
    assert len(history) == len(set(log))


@given(logs(), st.data())
def test_cutting_the_end(log: list[int], data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(log)))
    assert epochs.cut_end(history_of(log), Offset(end)) == history_of(log[:end])


@given(logs(), st.data())
def test_cutting_the_start(log: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, max(len(log) - 1, 0)))
    history = epochs.cut_start(history_of(log), Offset(start))
    assert [epoch_at(history, offset) for offset in range(start, len(log))] == log[start:]
    assert all(entry.start_offset >= start for entry in history)


@given(logs(), st.integers(-1, 60))
def test_where_an_epoch_ends(log: list[int], epoch: int) -> None:
    found = epochs.end_of_epoch(history_of(log), LeaderEpoch(epoch), Offset(len(log)))
    known = [one for one in log if one <= epoch]
    if not known:
        assert found is None
    else:
        assert found == (known[-1], len(known))


def test_batches_without_an_epoch_tell_nothing() -> None:
    history = history_of([1, 1])
    assert epochs.extended(history, LeaderEpoch(-1), Offset(2)) == history
    assert epochs.extended(history, LeaderEpoch(0), Offset(2)) == history


def test_an_epoch_that_wrote_nothing_is_forgotten() -> None:
    history = (EpochStart(LeaderEpoch(1), Offset(0)), EpochStart(LeaderEpoch(2), Offset(5)))
    assert epochs.extended(history, LeaderEpoch(4), Offset(5)) == (
        EpochStart(LeaderEpoch(1), Offset(0)),
        EpochStart(LeaderEpoch(4), Offset(5)),
    )


@given(logs())
def test_the_file_comes_back(log: list[int]) -> None:
    history = history_of(log)
    assert epochs.decode(epochs.encode(history)) == history


def test_the_file_is_that_of_kafka() -> None:
    history = (EpochStart(LeaderEpoch(0), Offset(0)), EpochStart(LeaderEpoch(3), Offset(1042)))
    assert epochs.encode(history) == b"0\n2\n0 0\n3 1042\n"


@given(st.binary(max_size=40) | st.text("0123456789 \n-x", max_size=30).map(str.encode))
def test_anything_else_is_refused_by_name(data: bytes) -> None:
    try:
        history = epochs.decode(data)
    except StorageError:
        return
    assert epochs.encode(history) == data


@given(logs(), st.data())
def test_a_torn_file_is_refused(log: list[int], data: st.DataObject) -> None:
    whole = epochs.encode(history_of(log))
    with pytest.raises(StorageError):
        epochs.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
