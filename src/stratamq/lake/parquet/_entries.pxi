# The entries of a block (blocks.py), as far as writing their batches needs them.

cdef enum:
    KIND_AT = HEADER_BYTES  # an entry is a batch's header, and then its own three fields
    FIRST_ROW_AT = HEADER_BYTES + 1
    ENTRY_BYTES = HEADER_BYTES + 9


cdef struct EntryView:
    # What of a block's entry (blocks.py) says how its batch is written.
    int64_t length
    bint packed
    int64_t last_offset
    int64_t count
    int64_t kind
    int64_t first_row
    Frame frame


cdef inline uint64_t big_endian(const uint8_t *at, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int index
    for index in range(size):
        value = value << 8 | at[index]
    return value


cdef inline void read_entry(const uint8_t *at, EntryView *found) noexcept nogil:
    found.frame = Frame(<int64_t>big_endian(at, 8), <int64_t>big_endian(at + BASE_TIMESTAMP_AT, 8), 0, False)
    found.length = <int32_t>big_endian(at + LENGTH_AT, 4)
    found.packed = at[ATTRIBUTES_LOW_AT] & CODEC_MASK != 0
    found.last_offset = <int64_t>(big_endian(at, 8) + big_endian(at + LAST_DELTA_AT, 4))
    found.count = <int32_t>big_endian(at + RECORD_COUNT_AT, 4)
    found.kind = at[KIND_AT]
    found.first_row = <int64_t>big_endian(at + FIRST_ROW_AT, 4)


def reach(table, int64_t first, int64_t room, int64_t end):
    """How many entries from `first` on come from rows, end below `end` and would fit `room` as
    they were stored: (where they stop, the first row, the row behind the last). Unpacked, fewer
    may fit."""
    cdef Py_buffer view
    cdef EntryView found
    cdef int64_t index = first, rows_from = -1, rows_to = 0, count
    PyObject_GetBuffer(table, &view, PyBUF_SIMPLE)
    try:
        count = view.len // ENTRY_BYTES
        with nogil:
            while 0 <= index < count:
                read_entry(<const uint8_t *>view.buf + index * ENTRY_BYTES, &found)
                room -= found.length + LENGTH_END
                if found.kind or found.last_offset >= end or (room < 0 and index > first):
                    break
                rows_from = found.first_row if rows_from < 0 else rows_from
                rows_to = found.first_row + found.count
                index += 1
        return index, max(rows_from, 0), rows_to
    finally:
        PyBuffer_Release(&view)
