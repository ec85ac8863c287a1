"""Topics in the Meta Service: what is stored of one, the commands that change it and their rules,
its rows, and the cache of a node.

A topic is reserved, gets its shards, becomes visible; its deletion hides it first and forgets it
when its data is gone:  creating -> ready -> deleting -> gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field, replace
from enum import StrEnum

from stratamq.meta.client import WatchedCache
from stratamq.meta.rows import Fields, RowFormat
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.meta.tier.rules import drop_all
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import AlreadyExists, InvalidConfig, InvalidName, NotFound, TopicNotFound
from stratamq.model.topic import STORAGE_TYPE, Topic, TopicConfig
from stratamq.model.types import NodeId, TopicId

TOPIC_NAME_MAX = 249
"""Kafka's limit: a name followed by a partition number still has to fit a file name."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")


class TopicPhase(StrEnum):
    """CREATING and DELETING reserve the name but are hidden from users: a topic is there whole or
    not at all."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMeta:
    """A topic and how far its life has come. `creator` is the node that must finish or undo its
    creation."""

    topic: Topic
    phase: TopicPhase
    creator: NodeId

    @property
    def key(self) -> TopicId:
        return self.topic.topic_id


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Reserve the name. The topic is hidden until ConfirmTopic; `creator` must confirm or delete
    it."""

    topic: Topic
    creator: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmTopic:
    """Every shard is there: the topic becomes visible to users."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """First phase: the topic is gone for users. Its shards' data may be deleted from now on."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopic:
    """Second phase, when the data is gone: forget the topic, its shards, segments and group
    offsets."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Make shards visible that were created before: the topic has `partitions` from now on."""

    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfig:
    """Give settings new values, and take others back to their defaults."""

    topic_id: TopicId
    put: Mapping[str, object] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()


# -- rules ----------------------------------------------------------------------------------------


def check_topic_name(name: str) -> None:
    """Kafka's rules, since the same topic is Kafka's too."""
    if not name:
        raise InvalidName("a topic needs a name")
    if name in (".", ".."):
        raise InvalidName(f"a topic cannot be called {name!r}")
    if len(name) > TOPIC_NAME_MAX:
        raise InvalidName(f"a topic name has at most {TOPIC_NAME_MAX} characters, not {len(name)}")
    if not _TOPIC_NAME.match(name):
        raise InvalidName(f"{name!r}: a topic name is made of letters, digits, '.', '_' and '-'")


def create_topic(state: MetaState, command: CreateTopic) -> list[Event]:
    topic = command.topic
    check_topic_name(topic.name)
    other = state.topic_like(topic.name)
    if other is not None:
        if other.topic.name != topic.name:
            raise InvalidName(
                f"{topic.name!r} collides with topic {other.topic.name!r}: '.' and '_' count as one"
            )
        if other.phase is TopicPhase.DELETING:
            raise AlreadyExists(f"topic {topic.name!r} is still being deleted")
        raise AlreadyExists(f"topic {topic.name!r} exists")
    if topic.topic_id in state.topics:
        raise AlreadyExists(f"a topic with id {topic.topic_id} exists")
    if topic.partitions < 1 or topic.replicas < 1:
        raise InvalidConfig(f"{topic.name}: a topic has at least one partition and one replica")
    return [Put(TopicMeta(topic=topic, phase=TopicPhase.CREATING, creator=command.creator))]


def confirm_topic(state: MetaState, command: ConfirmTopic) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is TopicPhase.READY:
        return []
    if meta.phase is TopicPhase.DELETING:
        raise TopicNotFound(f"topic {meta.topic.name!r} is being deleted")
    _check_shards(state, meta, meta.topic.partitions)
    return [Put(replace(meta, phase=TopicPhase.READY))]


def _check_shards(state: MetaState, meta: TopicMeta, partitions: int) -> None:
    """Users may only see partitions that can be written to."""
    whole = [
        shard
        for shard in state.shards_of(meta.key)
        if state.segments_of(shard.name) and not shard.deleting
    ]
    if len(whole) < partitions:
        raise NotFound(f"topic {meta.topic.name!r} has {len(whole)} of its {partitions} shards")


def delete_topic(state: MetaState, command: DeleteTopic) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is TopicPhase.DELETING:
        return []
    return [Put(replace(meta, phase=TopicPhase.DELETING))]


def remove_topic(state: MetaState, command: RemoveTopic) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is not TopicPhase.DELETING:
        raise AlreadyExists(f"topic {meta.topic.name!r} is in use: delete it first")
    shards = list(state.shards_of(meta.key))
    events: list[Event] = []
    for shard in shards:
        events += [Removed(segment) for segment in state.segments_of(shard.name)]
        events += [*drop_all(state, shard.name), Removed(shard)]
    names = {shard.name for shard in shards}
    for offsets in state.groups.values():
        events += [Removed(offsets[shard]) for shard in sorted(names.intersection(offsets))]
    for pending in state.pending.values():
        events += [Removed(pending[key]) for key in sorted(pending) if key.shard in names]
    return [*events, Removed(meta)]


def add_partitions(state: MetaState, command: AddPartitions) -> list[Event]:
    meta = ready_topic(state, command.topic_id)
    if command.partitions <= meta.topic.partitions:
        raise InvalidConfig(
            f"topic {meta.topic.name!r} has {meta.topic.partitions} partitions and can only grow"
        )
    _check_shards(state, meta, command.partitions)
    return [Put(replace(meta, topic=replace(meta.topic, partitions=command.partitions)))]


def alter_topic_config(state: MetaState, command: AlterTopicConfig) -> list[Event]:
    meta = ready_topic(state, command.topic_id)
    config = meta.topic.config.altered(command.put, command.reset)
    if config == meta.topic.config:
        return []
    return [Put(replace(meta, topic=replace(meta.topic, config=config)))]


def ready_topic(state: MetaState, topic_id: TopicId) -> TopicMeta:
    meta = state.topic(topic_id)
    if meta.phase is not TopicPhase.READY:
        raise TopicNotFound(f"topic {meta.topic.name!r} is {meta.phase}")
    return meta


# -- rows -----------------------------------------------------------------------------------------


def _topic_fields(meta: TopicMeta) -> Fields:
    topic = meta.topic
    return {
        "topic_id": topic.topic_id,
        "name": topic.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "config": dict(topic.config.given),
        "phase": meta.phase,
        "creator": meta.creator,
    }


def _topic(fields: Fields) -> TopicMeta:
    # A row may name a storage that no adapter is registered for now.
    config = TopicConfig.of(fields["config"], {fields["config"].get(STORAGE_TYPE)})
    topic = Topic(
        topic_id=fields["topic_id"],
        name=fields["name"],
        partitions=fields["partitions"],
        replicas=fields["replicas"],
        config=config,
    )
    return TopicMeta(topic=topic, phase=TopicPhase(fields["phase"]), creator=fields["creator"])


TOPIC_ROWS = (RowFormat(TopicMeta, b"t", lambda meta: meta.key.encode(), _topic, _topic_fields),)


# -- the cache of a node --------------------------------------------------------------------------


class BrokerCacheManager(WatchedCache):
    """Topics, by name and by id."""

    changes = 0
    """Counts the changes of topics: what a caller derived from them earlier is out of date."""

    _topics: dict[str, TopicMeta]
    _names: dict[TopicId, str]
    _by_name: list[Topic] | None = None

    def topic(self, name: str) -> Topic:
        """A topic that users may use; TopicNotFound otherwise."""
        meta = self._topics.get(name)
        if meta is None or meta.phase is not TopicPhase.READY:
            raise TopicNotFound(f"no topic {name!r}")
        return meta.topic

    def topic_by_id(self, topic_id: TopicId) -> Topic:
        name = self._names.get(topic_id)
        if name is None:
            raise TopicNotFound(f"no topic with id {topic_id}")
        return self.topic(name)

    def topics(self) -> list[Topic]:
        """All topics that users may use, by name. They are sorted once per change of any."""
        if self._by_name is None:
            ready = (meta for meta in self._topics.values() if meta.phase is TopicPhase.READY)
            self._by_name = sorted((meta.topic for meta in ready), key=lambda one: one.name)
        return list(self._by_name)

    def known(self) -> list[TopicMeta]:
        """All topics in every phase, half-created and half-deleted ones too."""
        return list(self._topics.values())

    async def wait_for_topic(
        self,
        name: str,
        timeout_s: float,
        *,
        until: Callable[[TopicMeta], bool] = lambda meta: True,
    ) -> TopicMeta:
        """The topic, in any phase, once it is known here and fulfils `until`."""

        def look() -> TopicMeta | None:
            meta = self._topics.get(name)
            return meta if meta is not None and until(meta) else None

        return await self._wait(name, look, timeout_s, f"topic {name!r}")

    async def wait_until_gone(self, name: str, topic_id: TopicId, timeout_s: float) -> None:
        def look() -> bool | None:
            meta = self._topics.get(name)
            return True if meta is None or meta.key != topic_id else None

        await self._wait(name, look, timeout_s, f"the end of topic {name!r}")

    def _replace(self, state: MetaState) -> None:
        self._topics = {meta.topic.name: meta for meta in state.topics.values()}
        self._names = {meta.key: meta.topic.name for meta in state.topics.values()}
        self._by_name = None
        self.changes += 1

    def _change(self, event: Event) -> Hashable | None:
        meta = event.entity
        if not isinstance(meta, TopicMeta):
            return None
        self._by_name = None
        self.changes += 1
        if isinstance(event, Put):
            self._topics[meta.topic.name] = meta
            self._names[meta.key] = meta.topic.name
        else:
            self._topics.pop(meta.topic.name, None)
            self._names.pop(meta.key, None)
        return meta.topic.name
