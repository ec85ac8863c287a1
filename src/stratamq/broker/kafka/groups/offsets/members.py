"""Who may commit and fetch a group's offsets."""

from __future__ import annotations

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.failures import group_code
from stratamq.meta.groups import check_group_name
from stratamq.model.errors import InvalidName, StrataError
from stratamq.wire.kafka.protocol import ErrorCode

EPOCHS_FROM = 9
"""OffsetCommit and OffsetFetch versions from which on a member epoch is meant."""


class OffsetGuard:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def commit_error(
        self, name: str, who: Identity, *, version: int, transactional: bool = False
    ) -> ErrorCode:
        """For OffsetCommit, and for TxnOffsetCommit with `transactional` (any version will do)."""
        try:
            check_group_name(name)
        except InvalidName:
            return ErrorCode.INVALID_GROUP_ID
        cell = self._coordinator.find(name)
        if cell is None:
            if who.generation < 0:
                return ErrorCode.NONE  # someone who assigns partitions to itself
            by_epoch = version >= EPOCHS_FROM and not transactional
            return ErrorCode.GROUP_ID_NOT_FOUND if by_epoch else ErrorCode.ILLEGAL_GENERATION
        found = cell

        def check(now_ms: int) -> ErrorCode:
            group = found.machine
            if isinstance(group, ClassicGroup):
                return group.commit_error(now_ms, who, transactional=transactional)
            epochs = version >= EPOCHS_FROM
            return group.commit_error(now_ms, who, epochs=epochs, transactional=transactional)

        try:
            return await found.run(check)
        except StrataError as error:
            return group_code(error)

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Members that name themselves get an answer only while they are members."""
        cell = self._coordinator.find(name)
        if cell is None or isinstance(cell.machine, ClassicGroup):
            return ErrorCode.NONE
        return cell.machine.fetch_error(member_id, epoch)
