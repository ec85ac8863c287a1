from collections.abc import Mapping

from stratamq.wire.kafka.records import Buffer

PART_NAMES: tuple[str, ...]

class Lent(Buffer):  # type: ignore[misc]
    def __len__(self) -> int: ...

class Columns:
    @property
    def rows(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def add(
        self,
        data: Buffer,
        start: int,
        stop: int,
        count: int,
        last_offset_delta: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> bool: ...
    def take(self) -> tuple[Mapping[str, Lent], tuple[int, int, int], tuple[int, ...]]: ...

class Rows:
    def __init__(self, rows: int, headers: int, buffers: list[object | None]) -> None: ...
    def records(
        self, first: int, count: int, base_offset: int, base_timestamp: int, head: bytes
    ) -> bytes: ...
