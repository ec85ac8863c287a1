"""What commands on files of object storage change, and when they are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.meta.tier.files import CommitFiles, DropFiles, ForgetObjects, RetiredObject, TierFile
from stratamq.model.errors import InvalidInput, NotFound, ShardNotFound
from stratamq.model.types import NO_TIMESTAMP, Offset, ShardName, TimestampMs


def commit_files(state: MetaState, command: CommitFiles) -> list[Event]:
    shard = state.shard(command.shard)
    if shard.deleting:
        raise ShardNotFound(f"{shard.name} is being deleted")
    files = state.files_of(shard.name)
    if _is_done(files, command):
        return []
    gone = _replaced(files, command)
    kept = [file for file in files if file not in gone]
    for file in command.add:
        _check_file(file, command)
    _check_apart(sorted([*kept, *command.add], key=lambda file: file.base_offset))
    _check_nothing_is_lost(command.add, gone)
    used_again = (state.retired.get(one.key) for file in command.add for one in file.objects)
    return [
        *(Removed(file) for file in gone),
        *(Put(file) for file in command.add),
        *_retired(gone, command.add, command.now_ms),
        *(Removed(retired) for retired in used_again if retired is not None),
    ]


def _is_done(files: Sequence[TierFile], command: CommitFiles) -> bool:
    """Whether the state is what the command wants it to be."""
    added = {file.base_offset: file for file in command.add}
    there = {file.base_offset: file for file in files}
    left = [base for base in command.replace if base not in added and base in there]
    return not left and all(there.get(base) == file for base, file in added.items())


def _replaced(files: Sequence[TierFile], command: CommitFiles) -> list[TierFile]:
    """The files that the command names; InvalidInput when they are others by now."""
    there = {file.base_offset: file for file in files}
    for base in command.replace:
        if base not in there:
            raise NotFound(f"{command.shard}: no file begins at offset {base}")
    gone = [there[base] for base in sorted(set(command.replace))]
    keys = frozenset(key for file in gone for key in file.data_keys)
    if command.replaced_keys and command.replaced_keys != keys:
        raise InvalidInput(f"{command.shard}: the files at {command.replace} were rewritten since")
    return gone


def _check_file(file: TierFile, command: CommitFiles) -> None:
    if file.shard != command.shard:
        raise InvalidInput(f"{file.shard}: its file is offered to {command.shard}")
    if not 0 <= file.base_offset < file.end_offset or not file.objects:
        raise InvalidInput(
            f"{file.shard}: a file of offsets {file.base_offset}..{file.end_offset} holds nothing"
        )
    if (file.parquet is None) != (file.parquet_end is None):
        raise InvalidInput(f"{file.shard}: a Parquet file without the checksum of its footer")


def _check_apart(files: Sequence[TierFile]) -> None:
    for one, other in pairwise(files):
        if one.end_offset > other.base_offset:
            raise InvalidInput(
                f"{one.shard}: files of offsets {one.base_offset}..{one.end_offset} and "
                f"{other.base_offset}..{other.end_offset} overlap"
            )


def _check_nothing_is_lost(add: Sequence[TierFile], gone: Sequence[TierFile]) -> None:
    """A final file may be the only copy: only final ones can replace it. The others may go without
    a replacement."""
    for file in gone:
        instead = [one for one in add if one.final or not file.final]
        if (file.final or add) and not _covered(file.base_offset, file.end_offset, instead):
            raise InvalidInput(
                f"{file.shard}: offsets {file.base_offset}..{file.end_offset} would be lost"
            )


def _covered(base: Offset, end: Offset, files: Iterable[TierFile]) -> bool:
    for file in sorted(files, key=lambda one: one.base_offset):
        if file.base_offset <= base < file.end_offset:
            base = file.end_offset
    return base >= end


def drop_files(state: MetaState, command: DropFiles) -> list[Event]:
    files = state.files_of(command.shard)
    gone = [file for file in files if file.end_offset <= command.below]
    return [*(Removed(file) for file in gone), *_retired(gone, (), command.now_ms)]


def drop_all(state: MetaState, shard: ShardName) -> list[Event]:
    """The shard itself goes. It cannot be read any more, so its objects may be deleted at once."""
    files = state.files_of(shard)
    return [*(Removed(file) for file in files), *_retired(files, (), NO_TIMESTAMP)]


def forget_objects(state: MetaState, command: ForgetObjects) -> list[Event]:
    found = (state.retired.get(key) for key in sorted(command.object_keys))
    return [Removed(retired) for retired in found if retired is not None]


def _retired(gone: Iterable[TierFile], add: Iterable[TierFile], now_ms: TimestampMs) -> list[Event]:
    """A file may come back with an object it had: another format was added to it."""
    kept = {one.key for file in add for one in file.objects}
    return [
        Put(RetiredObject(object_key=one.key, size=one.size, since_ms=now_ms))
        for file in gone
        for one in file.objects
        if one.key not in kept
    ]
