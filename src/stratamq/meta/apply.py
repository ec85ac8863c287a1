"""The state machine: a state and a command give the next state and what changed, or a refusal.

Pure: no clock, no disk, no chance. Every refusal is one of `stratamq.model.errors`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratamq.meta import (
    access,
    commands,
    resource_configs,
    rules_access,
    rules_configs,
    rules_groups,
    rules_shards,
    rules_tier,
    rules_topics,
    rules_transactions,
    tier,
    transactions,
)
from stratamq.meta.commands import Command
from stratamq.meta.events import Event
from stratamq.meta.state import MetaState, evolve

RULES: dict[type, Callable[[MetaState, Any], list[Event]]] = {
    commands.CreateTopic: rules_topics.create_topic,
    commands.ConfirmTopic: rules_topics.confirm_topic,
    commands.DeleteTopic: rules_topics.delete_topic,
    commands.RemoveTopic: rules_topics.remove_topic,
    commands.AddPartitions: rules_topics.add_partitions,
    commands.AlterTopicConfig: rules_topics.alter_topic_config,
    commands.CreateShard: rules_shards.create_shard,
    commands.DeleteShard: rules_shards.delete_shard,
    commands.RemoveShard: rules_shards.remove_shard,
    commands.CreateSegment: rules_shards.create_segment,
    commands.SealSegment: rules_shards.seal_segment,
    commands.ConfirmSealed: rules_shards.confirm_sealed,
    commands.ChangeSegment: rules_shards.change_segment,
    commands.RemoveSegment: rules_shards.remove_segment,
    commands.UpdateIsr: rules_shards.update_isr,
    tier.CommitFiles: rules_tier.commit_files,
    tier.DropFiles: rules_tier.drop_files,
    tier.ForgetObjects: rules_tier.forget_objects,
    commands.RegisterNode: rules_topics.register_node,
    commands.LoseNode: rules_topics.lose_node,
    commands.CommitOffsets: rules_groups.commit_offsets,
    commands.DeleteOffsets: rules_groups.delete_offsets,
    commands.SaveGroup: rules_groups.save_group,
    commands.DeleteGroup: rules_groups.delete_group,
    commands.AddPendingOffsets: rules_groups.add_pending_offsets,
    commands.EndPendingOffsets: rules_groups.end_pending_offsets,
    transactions.TakeProducerIds: rules_transactions.take_producer_ids,
    transactions.SaveTransaction: rules_transactions.save_transaction,
    transactions.DeleteTransaction: rules_transactions.delete_transaction,
    access.CreateAcl: rules_access.create_acl,
    access.DeleteAcl: rules_access.delete_acl,
    access.SaveCredential: rules_access.save_credential,
    access.DeleteCredential: rules_access.delete_credential,
    access.AlterQuota: rules_access.alter_quota,
    resource_configs.AlterResourceConfig: rules_configs.alter_resource_config,
}


def apply(state: MetaState, command: Command) -> tuple[MetaState, tuple[Event, ...]]:
    events = tuple(RULES[type(command)](state, command))
    return (evolve(state, events) if events else state), events
