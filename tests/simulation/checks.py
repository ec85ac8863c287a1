"""What a history and the logs after it must fulfil, whatever happened in between. Pure.

| fault       | means                                                                          |
|-------------|--------------------------------------------------------------------------------|
| lost        | acknowledged, and not in the log at the offset that was answered               |
| doubled     | one value at two offsets                                                       |
| reordered   | of one client in one partition, sent later and stored earlier                  |
| diverging   | an offset that was read with one value has another now, or none                |
| refused     | stored although it was refused                                                 |
| aborted     | a reader of committed records saw one of an aborted transaction                |
| half        | of one transaction some records are visible and some are not                   |
| foreign     | a value that nobody sent                                                       |
| stuck       | readers of committed records do not get to the end, long after all has ended    |
| group       | an offset of a group that was committed with a transaction is not there        |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from stratamq.client import TopicPartition
from tests.simulation.history import History, Log, Logs, Outcome, Send


def faults(history: History, logs: Logs) -> list[str]:
    """One line each, in a fixed order; none means that all holds."""
    found: list[str] = []
    for place, log in logs.partitions.items():
        sends = [send for send in history.sends if send.place == place]
        found += _stored(place, sends, log)
        found += _ordered(place, sends, log)
        found += _read(place, history, log)
        if log.stable < log.end:
            found.append(f"stuck: {place} at {log.stable} of {log.end}")
    found += _transactions(history, logs)
    found += _groups(history, logs)
    return found


def _stored(place: TopicPartition, sends: list[Send], log: Log) -> Iterator[str]:
    known = {send.value for send in sends}
    for offset, value in log.records.items():
        if value not in known:
            yield f"foreign: {place} has {value!r} at {offset}"
    for value, count in Counter(log.records.values()).items():
        if count > 1:
            yield f"doubled: {place} has {value!r} {count} times"
    stored = set(log.records.values())
    for send in sends:
        if send.outcome is Outcome.DONE and send.offset >= log.start:
            if log.records.get(send.offset) != send.value:
                found = log.records.get(send.offset)
                yield f"lost: {place} has {found!r} at {send.offset}, not {send.value!r}"
        elif send.outcome is Outcome.REFUSED and send.value in stored:
            yield f"refused: {place} has {send.value!r}"


def _ordered(place: TopicPartition, sends: list[Send], log: Log) -> Iterator[str]:
    at = {value: offset for offset, value in log.records.items()}
    last: dict[str, Send] = {}
    for send in sends:  # in the order in which they were sent
        if send.value not in at:
            continue
        before = last.get(send.client)
        if before is not None and at[before.value] > at[send.value]:
            yield f"reordered: {place} has {send.value!r} before {before.value!r}"
        last[send.client] = send


def _read(place: TopicPartition, history: History, log: Log) -> Iterator[str]:
    for read in history.reads:
        if read.place == place and read.offset >= log.start:
            now = log.records.get(read.offset)
            if now != read.value:
                yield f"diverging: {place} had {read.value!r} at {read.offset}, and has {now!r} now"


def _transactions(history: History, logs: Logs) -> Iterator[str]:
    visible = {
        (place, value) for place, log in logs.partitions.items() for value in log.committed.values()
    }
    read = {(read.place, read.value) for read in history.reads if read.committed}
    members: dict[int, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.transaction is not None and send.outcome is Outcome.DONE:
            members[send.transaction].append(send)
    for number, sends in members.items():
        outcome = history.transactions[number].outcome
        shown = [send for send in sends if (send.place, send.value) in visible]
        seen = [send for send in sends if (send.place, send.value) in read]
        if outcome is Outcome.REFUSED and (shown or seen):
            yield f"aborted: {(shown + seen)[0].value!r} of transaction {number} was visible"
        elif outcome is Outcome.DONE and len(shown) < len(sends):
            yield f"half: {len(shown)} of {len(sends)} of committed transaction {number}"
        elif 0 < len(shown) < len(sends):
            yield f"half: {len(shown)} of {len(sends)} of transaction {number}"
        elif seen and not shown:
            yield f"aborted: {seen[0].value!r} of transaction {number} was read and is void now"


def _groups(history: History, logs: Logs) -> Iterator[str]:
    """Offsets of a group only grow in a run: the last that was committed, or a later one whose
    outcome is not known."""
    sure: dict[tuple[str, TopicPartition], int] = {}
    possible: dict[tuple[str, TopicPartition], int] = {}
    for one in history.transactions:
        for key, offset in one.offsets.items():
            if one.outcome is Outcome.DONE:
                sure[key] = max(sure.get(key, -1), offset)
            if one.outcome is not Outcome.REFUSED:
                possible[key] = max(possible.get(key, -1), offset)
    for key, offset in sure.items():
        now = logs.offsets.get(key, -1)
        if now < offset:
            yield f"group: {key} is at {now}, and {offset} was committed"
    for key, now in logs.offsets.items():
        if now > possible.get(key, -1):
            yield f"group: {key} is at {now}, which nobody committed"
