"""Whether a topic's values may be declared as its config says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stratamq.meta.state import MetaState
from stratamq.model.topic import TopicConfig
from stratamq.model.types import TopicId

if TYPE_CHECKING:
    from stratamq.lake.declared import Declared

NAMES = ("lake.value.format", "lake.value.schema")


def redeclares(before: TopicConfig | None, after: TopicConfig) -> bool:
    """Whether the change (or, without `before`, the new topic) says something about values."""
    if before is None:
        return after["lake.value.format"] != "none"
    return any(before[name] != after[name] for name in NAMES)


def check_declared(
    before: TopicConfig | None, after: TopicConfig, files: Iterable[str] = ()
) -> None:
    """InvalidConfig when the values cannot be read by their schema, or the table that is there
    cannot be read on with it. `files` are the columns of its files."""
    if not redeclares(before, after):
        return
    from stratamq.lake.declared import check_values  # few topics need it

    check_values(_declared(before), _declared(after), files)


def _declared(config: TopicConfig | None) -> Declared | None:
    from stratamq.lake.declared import declared

    if config is None:
        return None
    return declared(str(config["lake.value.format"]), str(config["lake.value.schema"]))


def columns_of_files(state: MetaState, topic_id: TopicId) -> set[str]:
    return {
        file.columns for shard in state.shards_of(topic_id) for file in state.files_of(shard.name)
    }
