"""From what members subscribe to, names and patterns, to the topics there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stratamq.broker.kafka.groups.consumer.members import Reader, Subscription, TopicInfo, Topics
from stratamq.broker.kafka.groups.consumer.regex import Pattern, compile_pattern
from stratamq.model.types import TopicId

WORK_MAX = 40_000
"""Of patterns, for one request: about 20 ms, or 8,000 topics for one ordinary pattern. A search
that takes more goes on with the next request; until it is over, what was found before counts."""


class _Search(NamedTuple):
    regex: str
    reader: Reader | None


class _Scan:
    """A search under way through the topics that there were at its revision."""

    def __init__(self, topics: Topics, pattern: Pattern) -> None:
        self.revision = topics.revision
        self.found: set[str] = set()
        self.is_over = False
        self._names = iter(topics.by_name)
        self._pattern = pattern

    def go_on(self, reader: Reader | None, topics: Topics, work_max: int) -> int:
        """Search until all is seen or so much is done; how much was done."""
        before = self._pattern.work
        while self._pattern.work - before <= work_max:
            name = next(self._names, None)
            if name is None:
                self.is_over = True
                break
            seen = self._pattern.matches(name) and (reader is None or topics.shows(reader, name))
            if seen:
                self.found.add(name)
        return self._pattern.work - before


class Subscriptions:
    """Remembers compiled patterns and what they find for each reader, until topics or rights
    change."""

    def __init__(self) -> None:
        self._scans: dict[_Search, _Scan] = {}
        self._found: dict[_Search, frozenset[str]] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the last look at the topics went through all of them."""
        return all(scan.is_over for scan in self._scans.values())

    def topics(self, wants: Iterable[Subscription], topics: Topics) -> dict[str, TopicInfo]:
        """Every topic that somebody subscribes to and that exists."""
        wants = list(wants)
        self._search({_Search(one.regex, one.reader) for one in wants if one.regex}, topics)
        names = {name for one in wants for name in self._names(one)}
        return {name: topics.by_name[name] for name in sorted(names) if name in topics.by_name}

    def ids(
        self, wants: Subscription, topics: Mapping[str, TopicInfo]
    ) -> frozenset[TopicId] | None:
        """The ids of one member's topics, out of those that `topics` gave. None: its first search
        is not over."""
        if wants.regex and _Search(wants.regex, wants.reader) not in self._found:
            return None
        found = (topics.get(name) for name in self._names(wants))
        return frozenset(info.topic_id for info in found if info is not None)

    def _names(self, wants: Subscription) -> frozenset[str]:
        return wants.names | self._found.get(_Search(wants.regex, wants.reader), frozenset())

    def _search(self, searches: set[_Search], topics: Topics) -> None:
        for unused in self._scans.keys() - searches:
            del self._scans[unused]
            self._found.pop(unused, None)
        left = WORK_MAX
        for search in searches:
            scan = self._scans.get(search)
            if scan is None or scan.revision != topics.revision:
                scan = self._scans[search] = _Scan(topics, compile_pattern(search.regex))
            if not scan.is_over and left > 0:
                left -= scan.go_on(search.reader, topics, left)
                if scan.is_over:
                    self._found[search] = frozenset(scan.found)
