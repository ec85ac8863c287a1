"""What a converter is asked and what it answers, as values and as lines of JSON.

The node and its converters are two processes: `processes` is the node's side, `worker` the other.
Nothing here needs pyarrow, which only the converters load.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stratamq.meta.tier.files import ParquetEnd
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import EARLIEST, NO_TIMESTAMP, Offset, TimestampMs


class FileSums(NamedTuple):
    """Size and CRC32C of a whole file."""

    size: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Make files of the batches in `source`: a `.log` file, or a Parquet file of ours, of which
    `source_end` is known.

    Only offsets `base_offset..end_offset - 1` are in them, and of these no record that is
    `deleted` (in their order) or below `start`. `parquet` and `log` say which files are made and
    where. A `log` has whole batches as they are, what is deleted in them too, unless it is to be
    clean as well: then those batches are rewritten, and its sidecars are written next to it.
    """

    source: Path
    source_end: ParquetEnd | None = None
    parquet: Path | None = None
    log: Path | None = None
    log_is_clean: bool = False
    partition: int
    base_offset: Offset
    end_offset: Offset
    start: Offset = EARLIEST
    deleted: tuple[Offset, ...] = ()
    aborted: tuple[AbortedTxn, ...] = ()
    value_format: str = "none"
    value_schema: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    sums_of: tuple[Path, ...] = ()
    """Files of which only the checksums are wanted. Of a clean log it is its sidecars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What was made. The times are those of the records in the Parquet file; without one, those of
    the batches' headers."""

    parquet: FileSums | None = None
    parquet_end: ParquetEnd | None = None
    log: FileSums | None = None
    sums: tuple[FileSums, ...] = ()
    rows: int = 0
    batches: int = 0
    min_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp: TimestampMs = NO_TIMESTAMP
    unparsed: int = 0
    misfits: int = 0


class ConversionFailure(NamedTuple):
    """An error, by the name of its class."""

    kind: str
    message: str


class ConversionProgress(NamedTuple):
    """Bytes of the source that are done."""

    done_bytes: int


Answer = Converted | ConversionFailure | ConversionProgress


def encode_request(work: Conversion) -> bytes:
    return json.dumps(asdict(work), default=str).encode() + b"\n"


def decode_request(line: bytes) -> Conversion:
    found: dict[str, Any] = json.loads(line)
    for name in ("parquet", "log"):
        found[name] = None if found[name] is None else Path(found[name])
    return Conversion(
        **{
            **found,
            "source": Path(found["source"]),
            "source_end": _end(found["source_end"]),
            "sums_of": tuple(map(Path, found["sums_of"])),
            "deleted": tuple(found["deleted"]),
            "aborted": tuple(AbortedTxn(**one) for one in found["aborted"]),
        }
    )


def encode_answer(answer: Answer) -> bytes:
    match answer:
        case Converted():
            said: dict[str, Any] = {"converted": asdict(answer)}
        case ConversionFailure():
            said = {"failure": list(answer)}
        case ConversionProgress():
            said = {"progress": list(answer)}
    return json.dumps(said).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    ((kind, said),) = json.loads(line).items()
    if kind == "progress":
        return ConversionProgress(*said)
    if kind == "failure":
        return ConversionFailure(*said)
    return Converted(
        **{
            **said,
            "parquet": _sums(said["parquet"]),
            "parquet_end": _end(said["parquet_end"]),
            "log": _sums(said["log"]),
            "sums": tuple(FileSums(*one) for one in said["sums"]),
        }
    )


def _end(said: list[int] | None) -> ParquetEnd | None:
    return ParquetEnd(*said) if said else None


def _sums(said: list[int] | None) -> FileSums | None:
    return FileSums(*said) if said else None
