"""The checks find what they are for, each in a history that is right but for one thing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stratamq.client import TopicPartition
from tests.simulation.checks import faults
from tests.simulation.history import History, Log, Logs, Outcome, Read, Send, Txn

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ("readers", PLACE)


def right() -> tuple[History, Logs]:
    """Two records, one of them read; a transaction over two partitions that committed, and one
    that did not; a send whose answer was lost."""
    history = History(
        sends=[
            Send("c", PLACE, b"1", Outcome.DONE, 0),
            Send("c", PLACE, b"2", Outcome.DONE, 1),
            Send("c", PLACE, b"3", Outcome.DONE, 2, transaction=0),
            Send("c", OTHER, b"4", Outcome.DONE, 0, transaction=0),
            Send("c", PLACE, b"5", Outcome.DONE, 4, transaction=1),
            Send("c", PLACE, b"6", Outcome.UNKNOWN),
            Send("c", PLACE, b"7", Outcome.REFUSED),
        ],
        transactions=[Txn(Outcome.DONE, {GROUP: 3}), Txn(Outcome.REFUSED, {GROUP: 5})],
        reads={Read(PLACE, 0, b"1", committed=True): None},
    )
    records = {0: b"1", 1: b"2", 2: b"3", 4: b"5", 6: b"6"}
    committed = {0: b"1", 1: b"2", 2: b"3", 6: b"6"}
    logs = Logs(
        {
            PLACE: Log(records, committed, 0, 7, 7),
            OTHER: Log({0: b"4"}, {0: b"4"}, 0, 2, 2),
        },
        {GROUP: 3},
    )
    return history, logs


def with_log(logs: Logs, place: TopicPartition, log: Log) -> Logs:
    return replace(logs, partitions={**logs.partitions, place: log})


def test_a_right_history_has_no_faults() -> None:
    assert faults(*right()) == []


@pytest.mark.parametrize(
    ("fault", "records"),
    [
        ("lost", {0: b"1", 2: b"3", 4: b"5"}),
        ("doubled", {0: b"1", 1: b"2", 2: b"3", 4: b"5", 6: b"2"}),
        ("reordered", {0: b"1", 1: b"6", 2: b"3", 4: b"5", 6: b"2"}),
        ("diverging", {0: b"2", 1: b"2", 2: b"3", 4: b"5"}),
        ("refused", {0: b"1", 1: b"2", 2: b"3", 4: b"5", 6: b"7"}),
        ("foreign", {0: b"1", 1: b"2", 2: b"3", 4: b"5", 6: b"other"}),
    ],
)
def test_a_log_that_is_wrong(fault: str, records: dict[int, bytes]) -> None:
    history, logs = right()
    wrong = replace(logs.partitions[PLACE], records=records)
    assert fault in {one.partition(":")[0] for one in faults(history, with_log(logs, PLACE, wrong))}


def test_half_a_transaction() -> None:
    history, logs = right()
    hidden = replace(logs.partitions[OTHER], committed={})
    assert faults(history, with_log(logs, OTHER, hidden)) == [
        "half: 1 of 2 of committed transaction 0"
    ]
    history.transactions[0].outcome = Outcome.UNKNOWN
    assert "half: 1 of 2 of transaction 0" in faults(history, with_log(logs, OTHER, hidden))


def test_records_of_an_aborted_transaction() -> None:
    history, logs = right()
    shown = replace(logs.partitions[PLACE], committed=logs.partitions[PLACE].records)
    found = "aborted: b'5' of transaction 1 was visible"
    assert faults(history, with_log(logs, PLACE, shown)) == [found]
    history.reads[Read(PLACE, 4, b"5", committed=True)] = None
    assert faults(history, logs) == [found]


def test_records_of_an_open_transaction_that_were_read_too_early() -> None:
    history, logs = right()
    history.transactions[1].outcome = Outcome.UNKNOWN
    history.reads[Read(PLACE, 4, b"5", committed=True)] = None
    assert faults(history, logs) == ["aborted: b'5' of transaction 1 was read and is void now"]


def test_a_log_that_is_not_stable_to_its_end() -> None:
    history, logs = right()
    stuck = replace(logs.partitions[PLACE], stable=5)
    assert faults(history, with_log(logs, PLACE, stuck)) == ["stuck: t-0 at 5 of 7"]


@pytest.mark.parametrize("offset", [-1, 2, 5, 9])
def test_a_groups_offset_that_nobody_committed(offset: int) -> None:
    history, logs = right()
    [found] = faults(history, replace(logs, offsets={GROUP: offset}))
    assert found.startswith("group: ")
    history.transactions[1].outcome = Outcome.UNKNOWN
    assert faults(history, replace(logs, offsets={GROUP: 5})) == []
