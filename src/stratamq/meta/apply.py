"""The state machine: a state and a command give the next state and what changed, or a refusal.

Pure: no clock, no disk, no chance; ids, times and placements come with the command. Every refusal
is one of `stratamq.model.errors`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratamq.meta import (
    access,
    configs,
    groups,
    nodes,
    segments,
    shards,
    topics,
    transactions,
)
from stratamq.meta.evolve import evolve
from stratamq.meta.state import Event, MetaState
from stratamq.meta.tier import files, rules

Command = (
    topics.CreateTopic
    | topics.ConfirmTopic
    | topics.DeleteTopic
    | topics.RemoveTopic
    | topics.AddPartitions
    | topics.AlterTopicConfig
    | shards.CreateShard
    | shards.DeleteShard
    | shards.RemoveShard
    | segments.CreateSegment
    | segments.SealSegment
    | segments.ConfirmSealed
    | segments.ChangeSegment
    | segments.RemoveSegment
    | segments.UpdateIsr
    | files.CommitFiles
    | files.DropFiles
    | files.ForgetObjects
    | nodes.RegisterNode
    | nodes.LoseNode
    | groups.CommitOffsets
    | groups.DeleteOffsets
    | groups.SaveGroup
    | groups.DeleteGroup
    | groups.AddPendingOffsets
    | groups.EndPendingOffsets
    | transactions.TakeProducerIds
    | transactions.SaveTransaction
    | transactions.DeleteTransaction
    | access.CreateAcl
    | access.DeleteAcl
    | access.SaveCredential
    | access.DeleteCredential
    | access.AlterQuota
    | configs.AlterResourceConfig
)

RULES: dict[type, Callable[[MetaState, Any], list[Event]]] = {
    topics.CreateTopic: topics.create_topic,
    topics.ConfirmTopic: topics.confirm_topic,
    topics.DeleteTopic: topics.delete_topic,
    topics.RemoveTopic: topics.remove_topic,
    topics.AddPartitions: topics.add_partitions,
    topics.AlterTopicConfig: topics.alter_topic_config,
    shards.CreateShard: shards.create_shard,
    shards.DeleteShard: shards.delete_shard,
    shards.RemoveShard: shards.remove_shard,
    segments.CreateSegment: segments.create_segment,
    segments.SealSegment: segments.seal_segment,
    segments.ConfirmSealed: segments.confirm_sealed,
    segments.ChangeSegment: segments.change_segment,
    segments.RemoveSegment: segments.remove_segment,
    segments.UpdateIsr: segments.update_isr,
    files.CommitFiles: rules.commit_files,
    files.DropFiles: rules.drop_files,
    files.ForgetObjects: rules.forget_objects,
    nodes.RegisterNode: nodes.register_node,
    nodes.LoseNode: nodes.lose_node,
    groups.CommitOffsets: groups.commit_offsets,
    groups.DeleteOffsets: groups.delete_offsets,
    groups.SaveGroup: groups.save_group,
    groups.DeleteGroup: groups.delete_group,
    groups.AddPendingOffsets: groups.add_pending_offsets,
    groups.EndPendingOffsets: groups.end_pending_offsets,
    transactions.TakeProducerIds: transactions.take_producer_ids,
    transactions.SaveTransaction: transactions.save_transaction,
    transactions.DeleteTransaction: transactions.delete_transaction,
    access.CreateAcl: access.create_acl,
    access.DeleteAcl: access.delete_acl,
    access.SaveCredential: access.save_credential,
    access.DeleteCredential: access.delete_credential,
    access.AlterQuota: access.alter_quota,
    configs.AlterResourceConfig: configs.alter_resource_config,
}


def apply(state: MetaState, command: Command) -> tuple[MetaState, tuple[Event, ...]]:
    events = tuple(RULES[type(command)](state, command))
    return (evolve(state, events) if events else state), events
