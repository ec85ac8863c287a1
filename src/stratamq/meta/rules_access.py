"""What commands on access rules, users and quotas change, and when they are refused."""

from __future__ import annotations

from stratamq.meta.access import (
    AlterQuota,
    CreateAcl,
    CredentialKey,
    DeleteAcl,
    DeleteCredential,
    Quota,
    SaveCredential,
    check_credential,
    check_quota,
    check_rule,
    no_credential,
)
from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.state import MetaState


def create_acl(state: MetaState, command: CreateAcl) -> list[Event]:
    check_rule(command.rule)
    return [] if command.rule in state.acls else [Put(command.rule)]


def delete_acl(state: MetaState, command: DeleteAcl) -> list[Event]:
    return [Removed(command.rule)] if command.rule in state.acls else []


def save_credential(state: MetaState, command: SaveCredential) -> list[Event]:
    check_credential(command.credential)
    return [Put(command.credential)]


def delete_credential(state: MetaState, command: DeleteCredential) -> list[Event]:
    old = state.credentials.get(CredentialKey(command.user, command.mechanism))
    if old is None:
        raise no_credential(command)
    return [Removed(old)]


def alter_quota(state: MetaState, command: AlterQuota) -> list[Event]:
    check_quota(command)
    old = state.quotas.get(command.scope)
    limits = dict(old.limits) if old is not None else {}
    for name in command.remove:
        limits.pop(name, None)
    limits |= command.put
    if limits:
        return [Put(Quota(scope=command.scope, limits=limits))]
    return [] if old is None else [Removed(old)]
