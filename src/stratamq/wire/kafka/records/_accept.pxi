# A producer's batch on its way in: everything that is asked of it, in one pass.

cdef inline object new_header(const uint8_t *at):
    cdef object header = new_tuple(HEADER_TYPE, 13)
    give(header, 0, be64(at))
    give(header, 1, <int32_t>be32(at + LENGTH_AT))
    give(header, 2, <int32_t>be32(at + LEADER_EPOCH_AT))
    give(header, 3, <int8_t>at[MAGIC_AT])
    give(header, 4, be32(at + CRC_AT))
    give(header, 5, be16(at + CHECKED_AT))
    give(header, 6, <int32_t>be32(at + LAST_DELTA_AT))
    give(header, 7, be64(at + BASE_TIMESTAMP_AT))
    give(header, 8, be64(at + MAX_TIMESTAMP_AT))
    give(header, 9, be64(at + PRODUCER_ID_AT))
    give(header, 10, be16(at + PRODUCER_EPOCH_AT))
    give(header, 11, <int32_t>be32(at + BASE_SEQUENCE_AT))
    give(header, 12, <int32_t>be32(at + RECORD_COUNT_AT))
    PyObject_GC_UnTrack(<PyObject *>header)
    return header


cdef inline int16_t be16(const uint8_t *at) noexcept nogil:
    return <int16_t>((<uint16_t>at[0] << 8) | at[1])


cdef int64_t[5] EXPANSION_MAX
EXPANSION_MAX[:] = [expansion for _, expansion in sorted(compression.EXPANSION_MAX.items())]


cdef inline bint adds_up(const uint8_t *at, Py_ssize_t size, bint packed) noexcept nogil:
    # Exactly one batch, packed or not, with a count that its bytes can hold.
    cdef int32_t count
    cdef int codec
    if size < HEADER_BYTES or at[MAGIC_AT] != MAGIC:
        return False
    codec = at[ATTRIBUTES_LOW_AT] & CODEC_MASK
    if codec > 4 or packed != (codec != 0):
        return False
    count = <int32_t>be32(at + RECORD_COUNT_AT)
    return (
        <int32_t>be32(at + LENGTH_AT) == size - LENGTH_END
        and count > 0
        and <int32_t>be32(at + LAST_DELTA_AT) == count - 1
        and <int64_t>count * RECORD_BYTES_MIN <= (size - HEADER_BYTES) * EXPANSION_MAX[codec]
    )


cdef inline bint has_its_crc(const uint8_t *at, Py_ssize_t size) except -1:
    checked = PyMemoryView_FromMemory(<char *>at + CHECKED_AT, size - CHECKED_AT, 0x100)
    return <uint32_t>crc32c(checked) == be32(at + CRC_AT)


cdef object new_scan(Scan *scan):
    cdef object keys = packed_bytes(&scan.keys), tags = packed_bytes(&scan.tags)
    cdef object made = new_tuple(SCAN_TYPE, 4)
    give(made, 0, keys)
    give(made, 1, tags)
    give(made, 2, scan.max_timestamp)
    give(made, 3, True if scan.null_keys else False)
    PyObject_GC_UnTrack(<PyObject *>made)
    return made


cdef object scan_body(const uint8_t *at, Py_buffer *view, Py_ssize_t start, bint keys, bint tags):
    # The records of the batch whose header is at `at`; they fill `view` from `start` on.
    cdef Scan scan = Scan(Packed(NULL, 0, 0), Packed(NULL, 0, 0), keys, tags, False, INT64_MIN)
    cdef int64_t base_timestamp = be64(at + BASE_TIMESTAMP_AT)
    cdef int32_t count = <int32_t>be32(at + RECORD_COUNT_AT)
    cdef Walk walk
    try:
        begin(&walk, view, start, view.len, count, count - 1)
        walk.consecutive = True
        scan_walk(&walk, base_timestamp, &scan)
        if at[ATTRIBUTES_LOW_AT] & LOG_APPEND_TIME_BIT:  # the node's time, which stands in the header
            scan.max_timestamp = be64(at + MAX_TIMESTAMP_AT)
        return new_scan(&scan)
    finally:
        free(scan.keys.data)
        free(scan.tags.data)


def accept_plain(data, Py_ssize_t max_bytes, bint keys, bint tags):
    """Header and scan of an uncompressed batch in which everything adds up.

    None where the header does not: the careful path then says what is wrong, or unpacks.
    """
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef bint indexed
    cdef object header
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        at = <const uint8_t *>view.buf
        if view.len > max_bytes or not adds_up(at, view.len, False):
            return None
        header = new_header(at)
        if not has_its_crc(at, view.len):
            return None
        indexed = not at[ATTRIBUTES_LOW_AT] & CONTROL_BIT  # marks that end a transaction are no user's records
        return header, scan_body(at, &view, HEADER_BYTES, indexed and keys, indexed and tags)
    finally:
        PyBuffer_Release(&view)


def accept_packed(data, Py_ssize_t max_bytes):
    """Header of a compressed batch in which all that can be told without unpacking it adds up; None
    where something does not, or where it is not compressed."""
    cdef Py_buffer view
    cdef const uint8_t *at
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        at = <const uint8_t *>view.buf
        if view.len > max_bytes or not adds_up(at, view.len, True) or not has_its_crc(at, view.len):
            return None
        return new_header(at)
    finally:
        PyBuffer_Release(&view)


def scan_unpacked(data, records, bint keys, bint tags):
    """Scan of what `records` of the batch `data`, accepted before, unpacked to."""
    cdef Py_buffer view, body
    cdef const uint8_t *at
    cdef bint indexed
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < HEADER_BYTES:
            raise AssertionError("it was accepted before")
        at = <const uint8_t *>view.buf
        indexed = not at[ATTRIBUTES_LOW_AT] & CONTROL_BIT
        PyObject_GetBuffer(records, &body, PyBUF_SIMPLE)
        try:
            return scan_body(at, &body, 0, indexed and keys, indexed and tags)
        finally:
            PyBuffer_Release(&body)
    finally:
        PyBuffer_Release(&view)


cdef inline void put_place(uint8_t *at, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    cdef int i
    for i in range(8):
        at[i] = <uint8_t>(<uint64_t>base_offset >> (56 - 8 * i))
    for i in range(4):
        at[LEADER_EPOCH_AT + i] = <uint8_t>(<uint32_t>leader_epoch >> (24 - 8 * i))


cdef object moved_header(object header, int64_t base_offset, int32_t leader_epoch):
    cdef object moved = new_tuple(HEADER_TYPE, 13)
    cdef Py_ssize_t i
    give(moved, 0, base_offset)
    give(moved, 2, leader_epoch)
    for i in range(13):
        if i != 0 and i != 2:
            give(moved, i, <object>PyTuple_GET_ITEM(header, i))
    PyObject_GC_UnTrack(<PyObject *>moved)
    return moved


cdef enum:
    COPIED_MAX = 4096  # up to here a copy costs less than a second buffer


def place(header not None, data, int64_t base_offset, int32_t leader_epoch):
    """Header and bytes of the batch at its final offset and epoch. A large batch is not copied: its
    first bytes come apart from the rest, which is a view of `data`."""
    cdef Py_buffer view
    cdef object moved
    cdef Py_ssize_t size, copied
    if not PyTuple_Check(header) or PyTuple_GET_SIZE(header) != 13:
        raise TypeError("a batch header is wanted")
    size = PyLong_AsLongLong(<object>PyTuple_GET_ITEM(header, 1)) + LENGTH_END
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not HEADER_BYTES <= size <= view.len:
            raise AssertionError("header and bytes belong to the same batch")
        copied = size if size <= COPIED_MAX else MAGIC_AT
        moved = PyBytes_FromStringAndSize(<const char *>view.buf, copied)
    finally:
        PyBuffer_Release(&view)
    put_place(<uint8_t *>PyBytes_AS_STRING(moved), base_offset, leader_epoch)  # no other code has it yet
    if copied < size:
        return moved_header(header, base_offset, leader_epoch), (moved, memoryview(data)[copied:size])
    return moved_header(header, base_offset, leader_epoch), (moved,)
