"""Topic configs with storage types the model does not know: those a user registered an adapter
for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.setting import unknown_name
from stratamq.model.settings.topic import FIXED_SETTINGS, TOPIC_SETTINGS, StorageType
from stratamq.model.topic import TopicConfig

STORAGE = "storage.type"


def topic_config(given: Mapping[str, object], extra_storage: Collection[str] = ()) -> TopicConfig:
    """Like TopicConfig.of, but `storage.type` may also be one of `extra_storage`."""
    storage = given.get(STORAGE)
    if storage is None or storage not in extra_storage:
        return TopicConfig.of(given)
    rest = TopicConfig.of({name: value for name, value in given.items() if name != STORAGE})
    named = {STORAGE: str(storage)}
    return TopicConfig({**rest.given, **named}, {**rest.values, **named})


def storage_name(config: TopicConfig) -> str:
    """The storage type by name, which need not be one of ours."""
    return str(config[STORAGE])


def is_ours(storage: str) -> bool:
    return storage in tuple(StorageType)


def altered(config: TopicConfig, put: Mapping[str, object], reset: Collection[str]) -> TopicConfig:
    """The config with some settings given anew and some taken back to their defaults."""
    for name in reset:
        if name not in TOPIC_SETTINGS:
            raise unknown_name(name, TOPIC_SETTINGS)
    given: dict[str, object] = {n: v for n, v in config.given.items() if n not in reset}
    changed = topic_config({**given, **put}, {storage_name(config)})
    for name in FIXED_SETTINGS:
        if changed[name] != config[name]:
            raise InvalidConfig(f"{name} is fixed when a topic is created")
    return changed
