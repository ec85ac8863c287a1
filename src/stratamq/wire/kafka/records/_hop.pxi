# Hopping from batch to batch by their headers.

cdef struct Hop:
    Py_ssize_t size
    int64_t base_offset
    int64_t last_offset


cdef inline uint32_t be32(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t be64(const uint8_t *at) noexcept nogil:
    return <int64_t>((<uint64_t>be32(at) << 32) | be32(at + 4))


cdef inline bint read_hop(const uint8_t *at, Py_ssize_t left, Hop *hop) noexcept nogil:
    # False unless a whole and plausible batch begins here.
    cdef int32_t length, last_delta
    if left < HEADER_BYTES or at[MAGIC_AT] != MAGIC:
        return False
    length = <int32_t>be32(at + LENGTH_AT)
    last_delta = <int32_t>be32(at + LAST_DELTA_AT)
    if length < BATCH_LENGTH_MIN or length > left - LENGTH_END or last_delta < 0:
        return False
    hop.size = <Py_ssize_t>length + LENGTH_END
    hop.base_offset = be64(at)
    return not add_overflows(hop.base_offset, last_delta, &hop.last_offset)


cdef object new_span(Py_ssize_t position, Hop *hop, int64_t max_timestamp):
    cdef object span = new_tuple(SPAN_TYPE, 5)
    give(span, 0, position)
    give(span, 1, hop.size)
    give(span, 2, hop.base_offset)
    give(span, 3, hop.last_offset)
    give(span, 4, max_timestamp)
    PyObject_GC_UnTrack(<PyObject *>span)  # numbers only: never part of a cycle
    return span


cdef inline void give(object target, Py_ssize_t index, object item) noexcept:
    Py_INCREF(item)  # the tuple takes a reference over
    PyTuple_SET_ITEM(target, index, item)


def walk(data, Py_ssize_t position=0):
    """Every whole batch from `position` on; ends before the first that is incomplete or implausible."""
    cdef Py_buffer view
    cdef Hop hop
    cdef const uint8_t *base
    cdef list spans = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        base = <const uint8_t *>view.buf
        while 0 <= position < view.len and read_hop(base + position, view.len - position, &hop):
            spans.append(new_span(position, &hop, be64(base + position + MAX_TIMESTAMP_AT)))
            position += hop.size
    finally:
        PyBuffer_Release(&view)
    return spans


def intact(data, int64_t first, Py_ssize_t bytes_max, int64_t end, bint whole):
    """Size of the batches at the start of the data that can be trusted, and the offset after them.

    They pass their CRCs, end below `end` and are at most `bytes_max`, but for the first. That begins with `first`,
    unless `first` is negative. Offsets follow each other; where they need not (`whole` is False), a gap is believed when
    the batch after it agrees.
    """
    cdef Py_buffer view
    cdef Hop hop, following
    cdef const uint8_t *base
    cdef Py_ssize_t position = 0, after
    cdef int64_t expected = first
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        base = <const uint8_t *>view.buf
        while position < view.len and read_hop(base + position, view.len - position, &hop):
            after = position + hop.size
            if hop.last_offset >= end or (position and after > bytes_max):
                break
            if (position or first >= 0) and hop.base_offset != expected:
                if whole or not position or hop.base_offset < expected:
                    break
                if not read_hop(base + after, view.len - after, &following):
                    break
                if following.base_offset <= hop.last_offset:
                    break
            if not has_its_crc(base + position, hop.size):
                break
            position, expected = after, hop.last_offset + 1
    finally:
        PyBuffer_Release(&view)
    return position, expected


def find_batch(data, int64_t offset, Py_ssize_t position=0):
    """Position of the first batch that ends at or after `offset`; -1 when there is none."""
    cdef Py_buffer view
    cdef Hop hop
    cdef const uint8_t *base
    cdef Py_ssize_t found = -1
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    base = <const uint8_t *>view.buf
    while 0 <= position < view.len and read_hop(base + position, view.len - position, &hop):
        if hop.last_offset >= offset:
            found = position
            break
        position += hop.size
    PyBuffer_Release(&view)
    return found
