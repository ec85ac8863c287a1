"""How much metadata there may be. Separate from the state machine: limits are this process's
choice, and a state that was reached under larger ones is still a state."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.meta.access import AlterQuota, CreateAcl, SaveCredential
from stratamq.meta.apply import Command
from stratamq.meta.configs import AlterResourceConfig
from stratamq.meta.groups import (
    OFFSET_BYTES,
    AddPendingOffsets,
    CommitOffset,
    CommitOffsets,
    Offsets,
    SaveGroup,
)
from stratamq.meta.shards import CreateShard
from stratamq.meta.state import MetaState
from stratamq.meta.tier.files import CommitFiles
from stratamq.meta.topics import CreateTopic
from stratamq.meta.transactions import SaveTransaction, TransactionMeta
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CapacityExceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaLimits:
    """When one is reached, the command is refused with CapacityExceeded, unless said otherwise."""

    topics_max: int = 100_000
    partitions_per_topic_max: int = 10_000
    shards_max: int = 1_000_000
    groups_max: int = 100_000
    offset_bytes_max: int = 128 << 20
    transactions_max: int = 100_000
    transaction_shards_max: int = 1_000_000
    acls_max: int = 10_000
    credentials_max: int = 100_000
    quotas_max: int = 10_000
    configs_max: int = 10_000
    files_max: int = 1_000_000
    pending_commands_max: int = 10_000  # reached: callers wait
    watch_updates_max: int = 10_000  # reached: updates are dropped; the watcher reads a snapshot


def check_limits(state: MetaState, command: Command, limits: MetaLimits) -> None:
    match command:
        case CreateTopic(topic=topic):
            _check("topics_max", len(state.topics) + 1, limits.topics_max)
            _check("partitions_per_topic_max", topic.partitions, limits.partitions_per_topic_max)
        case CreateShard(partition=partition):
            _check("shards_max", len(state.shards) + 1, limits.shards_max)
            _check("partitions_per_topic_max", partition + 1, limits.partitions_per_topic_max)
        case CommitOffsets(group=group, offsets=offsets):
            _check_offsets(state, offsets, state.groups.get(group, {}), limits)
            if group not in state.groups:
                _check("groups_max", len(state.groups) + 1, limits.groups_max)
        case AddPendingOffsets(offsets=offsets):
            _check_offsets(state, offsets, {}, limits)
        case SaveGroup(group=group) if group not in state.members:
            _check("groups_max", len(state.members) + 1, limits.groups_max)
        case SaveTransaction(transaction=one):
            _check_transaction(state, one, limits)
        case CreateAcl(rule=rule) if rule not in state.acls:
            _check("acls_max", len(state.acls) + 1, limits.acls_max)
        case SaveCredential(credential=credential) if credential.key not in state.credentials:
            _check("credentials_max", len(state.credentials) + 1, limits.credentials_max)
        case AlterQuota(scope=scope) if scope not in state.quotas:
            _check("quotas_max", len(state.quotas) + 1, limits.quotas_max)
        case AlterResourceConfig(scope=scope) if scope not in state.configs:
            _check("configs_max", len(state.configs) + 1, limits.configs_max)
        case CommitFiles(add=add, replace=gone):
            there = sum(len(files) for files in state.files.values())
            _check("files_max", there + len(add) - len(gone), limits.files_max)
        case _:
            pass


def _check_transaction(state: MetaState, one: TransactionMeta, limits: MetaLimits) -> None:
    """One that has no more partitions than before can always go on, to its end above all."""
    old = state.transactions.get(one.transactional_id)
    if old is None:
        _check("transactions_max", len(state.transactions) + 1, limits.transactions_max)
    growth = len(one.shards) - (0 if old is None else len(old.shards))
    if growth > 0:
        wanted = state.transaction_shards + growth
        _check("transaction_shards_max", wanted, limits.transaction_shards_max)


def _check_offsets(
    state: MetaState, added: Sequence[CommitOffset], there: Offsets, limits: MetaLimits
) -> None:
    """A group that commits what it committed before, or less, is never refused."""
    replaced = [there[one.shard] for one in added if one.shard in there]
    growth = sum(OFFSET_BYTES + len(one.metadata) for one in added)
    growth -= sum(one.size_bytes for one in replaced)
    if growth > 0:
        _check("offset_bytes_max", state.offset_bytes + growth, limits.offset_bytes_max)


def _check(name: str, wanted: int, maximum: int) -> None:
    if wanted > maximum:
        raise CapacityExceeded(f"{name} is {maximum}; this would make {wanted}")
