"""Index rows from a batch scan: the loop over records that the interpreter must not do.

A scan is packed in entries of 12 bytes: hash u64, offset delta u32, big-endian. The plain-Python
twin of these functions is `tests/log/entries_oracle.py`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

cdef Py_ssize_t ENTRY = 12
cdef Py_ssize_t HASH = 8


cdef inline uint32_t read_u32(const uint8_t *at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline void write_u32(uint8_t *at, uint32_t number) noexcept:
    at[0] = number >> 24
    at[1] = (number >> 16) & 0xFF
    at[2] = (number >> 8) & 0xFF
    at[3] = number & 0xFF


def key_rows(bytes prefix not None, bytes scan not None, uint32_t relative_base):
    """A row key per entry: prefix, hash, offset relative to the segment."""
    cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(scan) // ENTRY
    cdef const uint8_t *entry = <const uint8_t *>PyBytes_AS_STRING(scan)
    cdef uint8_t *out
    cdef bytes row
    cdef list rows = []
    for _ in range(count):
        row = PyBytes_FromStringAndSize(NULL, prefix_size + ENTRY)
        out = <uint8_t *>PyBytes_AS_STRING(row)
        memcpy(out, PyBytes_AS_STRING(prefix), prefix_size)
        memcpy(out + prefix_size, entry, HASH)
        write_u32(out + prefix_size + HASH, relative_base + read_u32(entry + HASH))
        rows.append(row)
        entry += ENTRY
    return rows


def tag_rows(bytes prefix not None, bytes scan not None, uint32_t relative_base):
    """A row per different hash: (prefix, hash, base of the batch) and the deltas that have it."""
    cdef Py_ssize_t at
    cdef dict deltas = {}
    cdef bytes tag_hash
    cdef bytes base = relative_base.to_bytes(4, "big")
    for at in range(0, PyBytes_GET_SIZE(scan) - ENTRY + 1, ENTRY):
        tag_hash = scan[at : at + HASH]
        known = deltas.get(tag_hash)
        if known is None:
            deltas[tag_hash] = [scan[at + HASH : at + ENTRY]]
        else:
            (<list>known).append(scan[at + HASH : at + ENTRY])
    return [(prefix + tag_hash + base, b"".join(parts)) for tag_hash, parts in deltas.items()]
