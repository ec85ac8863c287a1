"""Notes of epochs: every one fits, and says what was written into it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.spark.sink import journal
from stratamq.spark.sink.journal import RECORD_BYTES_MAX, Note, decode, encode

TASKS_MAX = 1 << 31
ids = st.binary(min_size=16, max_size=16)
names = st.text("abcxyz019._-", min_size=1, max_size=249)
attempts = st.one_of(
    st.dictionaries(st.integers(0, 300), st.sampled_from([0, 0, 0, 1, 2])),
    st.dictionaries(st.integers(0, TASKS_MAX), st.integers(0, TASKS_MAX)),
    # Many tasks in a row, each a few apart from the next and tried a few times.
    st.builds(
        lambda count, step, tries: {i * step: i % tries for i in range(count)},
        st.integers(1, 60_000),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
)
notes = st.builds(Note, st.integers(0, TASKS_MAX), attempts, st.dictionaries(names, ids))


@given(notes)
def test_a_note_fits_its_records_whatever_the_tasks_and_retries(note: Note) -> None:
    records = encode(note)
    assert max(map(len, records)) <= RECORD_BYTES_MAX
    assert decode(records) == note


@pytest.mark.parametrize("topics", [0, 1, journal.TOPICS_MAX])
def test_the_largest_note_there_is(topics: int) -> None:
    """The longest names, and tasks with attempts of their own; each record within its limit."""
    targets = {f"{i:0249}": bytes(16) for i in range(topics)}
    many = {TASKS_MAX - task: TASKS_MAX - task for task in range(100_000)}
    note = Note(TASKS_MAX, many, targets)
    records = encode(note)
    assert max(map(len, records)) <= RECORD_BYTES_MAX
    assert decode(records) == note


def test_a_note_of_many_tasks_is_short() -> None:
    note = Note(7, dict.fromkeys(range(10_000), 0), {"totals": bytes(16)})
    assert [json.loads(record) for record in encode(note)] == [
        {"epoch": 7, "tasks": "0-9999"},
        {"epoch": 7, "topics": {"totals": "00" * 16}},
    ]


@given(st.lists(notes, min_size=1, max_size=4, unique_by=lambda note: note.epoch))
def test_the_newest_note_is_found(found: list[Note]) -> None:
    ordered = sorted(found, key=lambda note: note.epoch)
    records = [record for note in ordered for record in encode(note)]
    if len(ordered) > 1:  # late, of a driver that was replaced
        records.append(json.dumps({"epoch": ordered[0].epoch, "ended": True}).encode())
    assert decode(records) == ordered[-1]
    records.append(json.dumps({"epoch": ordered[-1].epoch, "ended": True}).encode())
    newest = decode(records)
    assert newest is not None
    assert newest.ended


def test_a_journal_without_notes() -> None:
    assert decode([]) is None


@pytest.mark.parametrize(
    ("note", "tasks"),
    [
        ("", {}),
        ("0-3", {0: 0, 1: 0, 2: 0, 3: 0}),
        ("0-1,3.1,5", {0: 0, 1: 0, 3: 1, 5: 0}),
        ("4.2,5.2", {4: 2, 5: 2}),
    ],
)
def test_tasks_as_earlier_versions_wrote_them(note: str, tasks: dict[int, int]) -> None:
    assert journal.attempts_of(note) == tasks


@pytest.mark.parametrize("query", ["plain-7", "with spaces/and: more-7", "long" * 100 + "-7"])
def test_any_query_has_a_journal_with_a_name_that_a_topic_may_have(query: str) -> None:
    name = journal.place_of(query).topic
    assert name.endswith("-7-epochs")
    assert len(name) <= 249
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789._-")
