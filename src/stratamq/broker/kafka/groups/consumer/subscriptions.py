"""From what members subscribe to, names and patterns, to the topics there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stratamq.broker.kafka.groups.consumer.members import Subscription, TopicInfo, Topics
from stratamq.broker.kafka.groups.consumer.regex import Pattern, compile_pattern
from stratamq.model.types import TopicId


class Subscriptions:
    """Remembers compiled patterns and what they match, until the topics change."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._matches: dict[str, frozenset[str]] = {}
        self._revision = -1

    def topics(self, wants: Iterable[Subscription], topics: Topics) -> dict[str, TopicInfo]:
        """Every topic that somebody subscribes to and that exists."""
        wants = list(wants)
        self._match({one.regex for one in wants if one.regex}, topics)
        names = {name for one in wants for name in self._names(one)}
        return {name: topics.by_name[name] for name in sorted(names) if name in topics.by_name}

    def ids(self, wants: Subscription, topics: Mapping[str, TopicInfo]) -> frozenset[TopicId]:
        """The ids of one member's topics, out of those that `topics` gave."""
        found = (topics.get(name) for name in self._names(wants))
        return frozenset(info.topic_id for info in found if info is not None)

    def _names(self, wants: Subscription) -> frozenset[str]:
        return wants.names | self._matches.get(wants.regex, frozenset())

    def _match(self, regexes: set[str], topics: Topics) -> None:
        if topics.revision != self._revision:
            self._matches.clear()
            self._revision = topics.revision
        for regex in regexes - self._matches.keys():
            if regex not in self._patterns:
                self._patterns[regex] = compile_pattern(regex)
            pattern = self._patterns[regex]
            self._matches[regex] = frozenset(
                name for name in topics.by_name if pattern.matches(name)
            )
        for unused in self._patterns.keys() - regexes:
            del self._patterns[unused]
            self._matches.pop(unused, None)
