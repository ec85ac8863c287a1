"""What one caller may do, as the table of APIs asks for it."""

from __future__ import annotations

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.authorizer import Decider
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.access import CLUSTER_NAME, OPERATIONS, Operation, ResourceKind
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import TopicNotFound
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode

REFUSAL: dict[ResourceKind, ErrorCode] = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
NOTHING = 0


@dataclass(frozen=True, slots=True)
class Rights:
    """Topics that are unknown by id have no name, so nobody can be refused them: the handler says
    that there are none."""

    decider: Decider
    caller: Caller
    known: BrokerCacheManager
    creates_topics: bool = False

    def may(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        caller = self.caller
        return self.decider.allows(caller.principal, caller.host, operation, kind, name)

    def on_topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.TOPIC, name)

    def on_group(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.GROUP, name)

    def on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceKind.CLUSTER, CLUSTER_NAME)

    def on_transaction(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.TRANSACTIONAL_ID, name)

    def on_any_topic(self, operation: Operation) -> bool:
        caller = self.caller
        return self.decider.allows_any(caller.principal, caller.host, operation, ResourceKind.TOPIC)

    def on_named_topic(self, operation: Operation, name: str | None, topic_id: bytes) -> bool:
        """By id where there is one."""
        if topic_id != NO_UUID:
            name = self.name_of(topic_id)
            return name is None or self.on_topic(operation, name)
        return self.on_topic(operation, name or "")

    def name_of(self, topic_id: bytes) -> str | None:
        try:
            return self.known.topic_by_id(TopicId(topic_id.hex())).name
        except TopicNotFound:
            return None

    def exists(self, topic: str) -> bool:
        try:
            return bool(self.known.topic(topic))
        except TopicNotFound:
            return False

    def operations(self, kind: ResourceKind, name: str = CLUSTER_NAME) -> int:
        """A bit for each operation that is allowed on it."""
        return sum(1 << one for one in OPERATIONS[kind] if self.may(one, kind, name))
