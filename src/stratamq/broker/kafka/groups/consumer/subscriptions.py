"""From what members subscribe to, names and patterns, to the topics there are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from stratamq.broker.kafka.groups.consumer.members import Reader, Subscription, TopicInfo, Topics
from stratamq.broker.kafka.groups.consumer.regex import Pattern, compile_pattern
from stratamq.model.types import TopicId


class Subscriptions:
    """Remembers compiled patterns and what they find for each reader, until topics or rights
    change."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._found: dict[_Search, frozenset[str]] = {}
        self._revision: Hashable = None

    def topics(self, wants: Iterable[Subscription], topics: Topics) -> dict[str, TopicInfo]:
        """Every topic that somebody subscribes to and that exists."""
        wants = list(wants)
        self._search({_Search(one.regex, one.reader) for one in wants if one.regex}, topics)
        names = {name for one in wants for name in self._names(one)}
        return {name: topics.by_name[name] for name in sorted(names) if name in topics.by_name}

    def ids(self, wants: Subscription, topics: Mapping[str, TopicInfo]) -> frozenset[TopicId]:
        """The ids of one member's topics, out of those that `topics` gave."""
        found = (topics.get(name) for name in self._names(wants))
        return frozenset(info.topic_id for info in found if info is not None)

    def _names(self, wants: Subscription) -> frozenset[str]:
        return wants.names | self._found.get(_Search(wants.regex, wants.reader), frozenset())

    def _search(self, searches: set[_Search], topics: Topics) -> None:
        if topics.revision != self._revision:
            self._found.clear()
            self._revision = topics.revision
        regexes = {search.regex for search in searches}
        self._patterns = {
            regex: self._patterns.get(regex) or compile_pattern(regex) for regex in regexes
        }
        self._found = {
            search: self._found[search] if search in self._found else self._find(search, topics)
            for search in searches
        }

    def _find(self, search: _Search, topics: Topics) -> frozenset[str]:
        pattern, reader = self._patterns[search.regex], search.reader
        found = (name for name in topics.by_name if pattern.matches(name))
        return frozenset(name for name in found if reader is None or topics.shows(reader, name))


class _Search(NamedTuple):
    regex: str
    reader: Reader | None
