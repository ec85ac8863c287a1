"""Which files of a topic are to be made anew. Pure: a node's answer in, rewrites out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition


class Rewrite(NamedTuple):
    """One file with offsets `base..end - 1`, in place of those that begin at `replaced`.

    `deleted` is how many records of it are known to be deleted: they will not be in it.
    """

    partition: int
    base: int
    end: int
    replaced: tuple[int, ...]
    deleted: int = 0


def backlog(lake: DescribedLake) -> list[Rewrite]:
    """Segments that are there as raw logs only."""
    return [
        _rewrite(part, [file])
        for part in lake.partitions
        for file in _live(part)
        if file.parquet_key is None
    ]


def small_files(lake: DescribedLake, file_bytes: int) -> list[Rewrite]:
    """Neighbours that together are no larger than `file_bytes`, two or more of them at a time."""
    return [
        _rewrite(part, run)
        for part in lake.partitions
        for run in _runs(_live(part), file_bytes)
        if len(run) > 1
    ]


def with_deletions(lake: DescribedLake) -> list[Rewrite]:
    """Files in which records are marked as deleted."""
    found = [_rewrite(part, [file]) for part in lake.partitions for file in _live(part)]
    return [one for one in found if one.deleted]


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


def _rewrite(part: LakePartition, files: Sequence[LakeFile]) -> Rewrite:
    base, end = files[0].base_offset, files[-1].end_offset
    marks = sorted(part.deleted)
    count = bisect_left(marks, end) - bisect_left(marks, base)
    return Rewrite(
        part.partition_index, base, end, tuple(file.base_offset for file in files), count
    )
