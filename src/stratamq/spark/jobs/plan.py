"""Which files of a topic are to be rewritten. Pure: a node's answer in, rewrites out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from stratamq.tiering.outdated import is_cut_into, is_outdated, within
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition


class FileRewrite(NamedTuple):
    """One file with offsets `base..end - 1`, in place of those that begin at `replaced` and whose
    objects are `objects`: if they are others by then, another writer was faster.

    It will have nothing below `start`, and none of the `deleted` records that are known to be so.
    It is made in the formats that all of them have.
    """

    partition: int
    base: int
    end: int
    replaced: tuple[int, ...]
    objects: tuple[str, ...] = ()
    start: int = 0
    deleted: int = 0
    parquet: bool = True
    log: bool = False


def backlog(lake: DescribedLake) -> list[FileRewrite]:
    """Segments that are there as raw logs only, and will be there as Parquet only."""
    return [
        _rewrite(part, [file])._replace(parquet=True, log=False)
        for part in lake.partitions
        for file in _live(part)
        if file.parquet_key is None
    ]


def small_files(lake: DescribedLake, file_bytes: int) -> list[FileRewrite]:
    """Put neighbours together that are no larger than `file_bytes` in all, two or more at a
    time."""
    return [
        _rewrite(part, run)
        for part in lake.partitions
        for run in _runs(_live(part), file_bytes)
        if len(run) > 1
    ]


def with_deletions(lake: DescribedLake) -> list[FileRewrite]:
    """Files with records that were deleted since, one by one or all up to some offset."""
    return [
        _rewrite(part, [file])
        for part in lake.partitions
        for file in _live(part)
        if is_outdated(file, part.deleted, part.start_offset)
        or is_cut_into(file, part.start_offset)
    ]


def _live(part: LakePartition) -> list[LakeFile]:
    """Final files, in order, of which anything is left."""
    ordered = sorted(part.files, key=lambda file: file.base_offset)
    return [file for file in ordered if file.final and file.end_offset > part.start_offset]


def _runs(files: Sequence[LakeFile], file_bytes: int) -> Iterator[list[LakeFile]]:
    """Cut greedily, and wherever a file is no Parquet file or does not adjoin the one before."""
    for is_parquet, some in groupby(files, key=lambda file: file.parquet_key is not None):
        if not is_parquet:
            continue
        run: list[LakeFile] = []
        for file in some:
            size = sum(one.parquet_size for one in run) + file.parquet_size
            if run and (size > file_bytes or run[-1].end_offset != file.base_offset):
                yield run
                run = []
            run.append(file)
        yield run


def _rewrite(part: LakePartition, files: Sequence[LakeFile]) -> FileRewrite:
    objects = (key for file in files for key in (file.parquet_key, file.log_key))
    return FileRewrite(
        partition=part.partition_index,
        base=files[0].base_offset,
        end=files[-1].end_offset,
        replaced=tuple(file.base_offset for file in files),
        objects=tuple(key for key in objects if key is not None),
        start=part.start_offset,
        deleted=sum(len(within(file, part.deleted)) for file in files),
        parquet=all(file.parquet_key is not None for file in files),
        log=all(file.log_key is not None for file in files),
    )
