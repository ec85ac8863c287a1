"""What `stratamq.log._entries` should give, in plain Python and in no hurry."""

from __future__ import annotations

import struct

ENTRY = struct.Struct(">QI")


def key_rows(prefix: bytes, scan: bytes, relative_base: int) -> list[bytes]:
    return [
        prefix + struct.pack(">QI", key_hash, relative_base + delta)
        for key_hash, delta in ENTRY.iter_unpack(scan)
    ]


def tag_rows(prefix: bytes, scan: bytes, relative_base: int) -> list[tuple[bytes, bytes]]:
    deltas: dict[int, list[int]] = {}
    for tag_hash, delta in ENTRY.iter_unpack(scan):
        deltas.setdefault(tag_hash, []).append(delta)
    return [
        (
            prefix + struct.pack(">QI", tag_hash, relative_base),
            struct.pack(f">{len(found)}I", *found),
        )
        for tag_hash, found in deltas.items()
    ]
