"""Topics, and what each was configured with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import cast

from stratamq.model.dataclass import dataclass
from stratamq.model.settings.setting import Value, parse_all
from stratamq.model.settings.topic import TOPIC_SETTINGS, Flush, StorageType
from stratamq.model.types import TopicId


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic was configured with. `given` is what the user said, the rest are defaults."""

    given: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, given: Mapping[str, object] | None = None) -> TopicConfig:
        """Parse and check; InvalidConfig names the setting and what is wrong with it."""
        given = given or {}
        values = parse_all(TOPIC_SETTINGS, given)
        return cls({name: values[name] for name in given}, values)

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def number(self, name: str) -> int:
        return cast(int, self.values[name])

    def flag(self, name: str) -> bool:
        return cast(bool, self.values[name])

    @property
    def storage_type(self) -> StorageType:
        return StorageType(str(self.values["storage.type"]))

    @property
    def flush(self) -> Flush:
        return Flush(str(self.values["flush"]))

    @property
    def compacts(self) -> bool:
        return "compact" in str(self.values["cleanup.policy"])

    @property
    def deletes(self) -> bool:
        return "delete" in str(self.values["cleanup.policy"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the Meta Service knows it."""

    topic_id: TopicId
    name: str
    partitions: int
    replicas: int = 1
    config: TopicConfig = field(default_factory=TopicConfig.of)
