"""Topics, and what each was configured with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import cast

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.setting import Value, parse_all, unknown_name
from stratamq.model.settings.topic import FIXED_SETTINGS, TOPIC_SETTINGS, Flush, StorageType
from stratamq.model.types import TopicId

STORAGE_TYPE = "storage.type"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic was configured with. `given` is what the user said, the rest are defaults."""

    given: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, given: Mapping[str, object] | None = None, extra_storage: Collection[str] = ()
    ) -> TopicConfig:
        """Parse and check; InvalidConfig names the setting and what is wrong with it.

        `storage.type` may also be one of `extra_storage`: the storages that a user registered an
        adapter for.
        """
        given = given or {}
        storage = given.get(STORAGE_TYPE)
        if storage is None or storage not in extra_storage:
            values = parse_all(TOPIC_SETTINGS, given)
        else:
            ours = {name: value for name, value in given.items() if name != STORAGE_TYPE}
            values = parse_all(TOPIC_SETTINGS, ours) | {STORAGE_TYPE: str(storage)}
        return cls({name: values[name] for name in given}, values)

    def altered(self, put: Mapping[str, object], reset: Collection[str]) -> TopicConfig:
        """The config with some settings changed and some taken back to their defaults."""
        for name in reset:
            if name not in TOPIC_SETTINGS:
                raise unknown_name(name, TOPIC_SETTINGS)
        given: dict[str, object] = {n: v for n, v in self.given.items() if n not in reset}
        changed = TopicConfig.of({**given, **put}, {self.storage_name})
        for name in FIXED_SETTINGS:
            if changed[name] != self[name]:
                raise InvalidConfig(f"{name} is fixed when a topic is created")
        return changed

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def number(self, name: str) -> int:
        return cast(int, self.values[name])

    def flag(self, name: str) -> bool:
        return cast(bool, self.values[name])

    @property
    def storage_name(self) -> str:
        """The storage type by name, which need not be one of ours."""
        return str(self.values[STORAGE_TYPE])

    @property
    def storage_type(self) -> StorageType:
        return StorageType(self.storage_name)

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
