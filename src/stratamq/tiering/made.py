"""Files that others made of a shard's history, such as Spark's tasks, and that take the places of
files there are.

Such a file holds the same records as those it replaces, in the same offsets: that much is believed
of who may ask for it. That it is there, whole, and under a key of ours is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stratamq.lake.declared import parse_columns
from stratamq.meta.tier import CommitFiles, TierFile
from stratamq.model.errors import InvalidInput, NotFound
from stratamq.model.types import Offset
from stratamq.tiering import keys
from stratamq.tiering.context import TierContext
from stratamq.tiering.stores.contract import ObjectStore

CACHE_TIMEOUT_S = 10.0


async def commit_made(
    context: TierContext, store: ObjectStore, file: TierFile, replaced: Sequence[Offset]
) -> None:
    """The shard has `file` instead of those that begin at `replaced` when it returns.

    InvalidInput when one of them is not there any more, or the file does not hold what they hold;
    ObjectNotFound when the object is not there. Repeating it changes nothing.
    """
    assert file.parquet is not None, "made files are Parquet files"
    there = {one.base_offset: one for one in context.cache.files(file.shard)}
    before = there.get(file.base_offset)
    if before is not None and before.parquet == file.parquet:
        return
    gone = checked(file, replaced, there, context.owner)
    info = await store.head(file.parquet.key)
    if (info.size, info.crc32c) != (file.parquet.size, file.parquet.crc):
        raise InvalidInput(f"{file.parquet.key}: the object is not what it is said to be")
    now_ms = context.clock.now_ms()
    whole = replace(file, log_bytes=sum(one.log_bytes for one in gone), created_ms=now_ms)
    command = CommitFiles(shard=file.shard, add=(whole,), replace=tuple(replaced), now_ms=now_ms)
    try:
        revision = await context.meta.submit(command)
    except NotFound as error:  # gone since it was looked at
        raise InvalidInput(str(error)) from None
    await context.cache.wait_for_revision(revision, CACHE_TIMEOUT_S)


def checked(
    file: TierFile, replaced: Sequence[Offset], there: dict[Offset, TierFile], owner: str
) -> list[TierFile]:
    """The files that go. They are final, next to each other, and just what the new one covers."""
    gone = []
    for base in sorted(replaced):
        if base not in there:
            raise InvalidInput(f"{file.shard}: no file begins at offset {base} any more")
        gone.append(there[base])
    if not gone or not all(one.final for one in gone):
        raise InvalidInput(f"{file.shard}: only final files can be replaced by one that was made")
    if (file.base_offset, file.end_offset) != (gone[0].base_offset, gone[-1].end_offset):
        raise InvalidInput(f"{file.shard}: the file does not cover what it replaces")
    name = keys.parse(file.parquet.key if file.parquet else "")
    if name is None or (name.shard, name.base_offset) != (file.shard, file.base_offset):
        raise InvalidInput(f"{file.shard}: the key is not that of a file at {file.base_offset}")
    if name.kind is not keys.Kind.PARQUET or name.owner != owner:
        raise InvalidInput(f"{file.shard}: the key is not one of this cluster's files")
    parse_columns(file.columns)
    return gone
