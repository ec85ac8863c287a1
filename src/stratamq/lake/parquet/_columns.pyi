from collections.abc import Mapping

from stratamq.wire.kafka.records import Buffer

PART_NAMES: tuple[str, ...]

class Lent:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

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

KINDS: Mapping[str, int]

class Typed:
    def __init__(self, specs: list[tuple[int, bytes, int, int, int, int, int, bool]]) -> None: ...
    def parse(
        self, rows: int, at: object, data: object, valid: object, avro: bool, prefix: int
    ) -> tuple[int, int]: ...
    def take(self) -> list[tuple[Lent, Lent | None, Lent | None] | None]: ...

def hash_of(value: bytes) -> int: ...
def filter_may_hold(bitset: Buffer, value: bytes) -> bool: ...
