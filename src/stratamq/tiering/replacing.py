"""Files that others made of a shard's history, such as Spark's tasks, and that replace files of it.

Such a file holds the same records as the files it replaces, at the same offsets: a client that may
commit files is trusted in that. That the objects exist, are whole and have keys of ours is checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from stratamq.lake.declared import parse_columns
from stratamq.meta.tier.files import CommitFiles, Replaced, TierFile, TierObject
from stratamq.model.errors import InvalidInput, NotFound, ObjectNotFound
from stratamq.model.types import Offset
from stratamq.tiering import keys
from stratamq.tiering.context import TierContext
from stratamq.tiering.stores.contract import ObjectStore

CACHE_TIMEOUT_S = 10.0
SIDECARS = (keys.ObjectKind.INDEX, keys.ObjectKind.TIMEINDEX)


async def commit_made(
    context: TierContext, store: ObjectStore, file: TierFile, replaced: Replaced
) -> None:
    """The shard has `file` instead of those that are `replaced` when it returns.

    InvalidInput when one of them has gone, or was rewritten since, or the file does not hold what
    they hold; ObjectNotFound when an object is missing. Safe to repeat. The caller holds its
    `object_keys` in flight, so that the cleaner leaves them alone.
    """
    there = {one.base_offset: one for one in context.cache.files(file.shard)}
    before = there.get(file.base_offset)
    if before is not None and (before.parquet, before.log) == (file.parquet, file.log):
        return
    gone = checked(file, replaced, there, context.owner)
    for one in file.objects:
        info = await store.head(one.key)
        if (info.size, info.crc32c) != (one.size, one.crc):
            raise InvalidInput(f"{one.key}: the object is not what it is said to be")
    now_ms = context.clock.now_ms()
    index, timeindex = await _sidecars(store, file)
    whole = replace(
        file,
        index=index,
        timeindex=timeindex,
        log_bytes=sum(one.log_bytes for one in gone),
        created_ms=now_ms,
        written_ms=max(one.largest_timestamp for one in gone),
    )
    command = CommitFiles(
        shard=file.shard,
        add=(whole,),
        replace=replaced.bases,
        replaced_keys=replaced.object_keys,
        now_ms=now_ms,
    )
    try:
        revision = await context.meta.submit(command)
    except NotFound as error:  # gone since it was looked at
        raise InvalidInput(str(error)) from None
    await context.cache.wait_for_revision(revision, CACHE_TIMEOUT_S)


def object_keys(file: TierFile) -> Iterator[str]:
    """Yield the keys of the file's objects, to be left alone while it is committed. A raw log's
    sidecars are not named yet, but found next to it."""
    yield from file.data_keys
    if file.log is not None:
        yield from map(partial(_sidecar_key, file.log), SIDECARS)


def _sidecar_key(log: TierObject, kind: keys.ObjectKind) -> str:
    return f"{log.key.removesuffix(keys.ObjectKind.LOG)}{kind}"


async def _sidecars(store: ObjectStore, file: TierFile) -> list[TierObject | None]:
    """Find the sidecars of a raw log, which lie next to it. Without one it is read more slowly."""
    found: list[TierObject | None] = []
    for kind in SIDECARS:
        found.append(None)
        if file.log is not None:
            key = _sidecar_key(file.log, kind)
            with contextlib.suppress(ObjectNotFound):
                info = await store.head(key)
                found[-1] = None if info.crc32c is None else TierObject(key, info.size, info.crc32c)
    return found


def checked(
    file: TierFile, replaced: Replaced, there: Mapping[Offset, TierFile], owner: str
) -> list[TierFile]:
    """The files that go. They are final, next to each other, and just what the new one covers."""
    gone = []
    for base in sorted(replaced.bases):
        if base not in there:
            raise InvalidInput(f"{file.shard}: no file begins at offset {base} any more")
        gone.append(there[base])
    if not gone or not all(one.final for one in gone):
        raise InvalidInput(f"{file.shard}: only final files can be replaced by one that was made")
    if (file.base_offset, file.end_offset) != (gone[0].base_offset, gone[-1].end_offset):
        raise InvalidInput(f"{file.shard}: the file does not cover what it replaces")
    if replaced.object_keys != {key for one in gone for key in one.data_keys}:
        raise InvalidInput(f"{file.shard}: what is at {file.base_offset} was rewritten since")
    for key in file.data_keys:
        name = keys.parse(key)
        if name is None or (name.shard, name.base_offset) != (file.shard, file.base_offset):
            raise InvalidInput(f"{file.shard}: the key is not that of a file at {file.base_offset}")
        kind = (
            keys.ObjectKind.LOG
            if file.log is not None and key == file.log.key
            else keys.ObjectKind.PARQUET
        )
        if name.kind is not kind or name.owner != owner:
            raise InvalidInput(f"{file.shard}: the key is not one of this cluster's files")
    parse_columns(file.columns)
    return gone
