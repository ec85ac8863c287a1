# Taking a record apart, in place.

cdef enum Reason:
    FINE = 0
    BAD_VARINT
    PAST_END
    BAD_LENGTH
    LEFT_OVER
    NO_MORE
    BAD_ORDER
    BAD_TIME
    MEMORY_IS_OUT

REASONS = {
    BAD_VARINT: "a varint is cut off or too long",
    PAST_END: "a length reaches past the end",
    BAD_LENGTH: "a length is impossible",
    LEFT_OVER: "bytes are left over",
    NO_MORE: "there are fewer records than the header counts",
    BAD_ORDER: "its offset delta is out of order",
    BAD_TIME: "its timestamp is out of range",
}


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end


cdef struct Slice:
    const uint8_t *data
    Py_ssize_t size  # -1: null


cdef struct RecordView:
    const uint8_t *start  # with the length before it
    int64_t timestamp_delta
    int32_t offset_delta
    Cursor rest  # behind the offset delta: key, value, headers
    Slice key
    Slice value
    int32_t header_count


cdef struct Walk:
    # One pass over the records of a batch, holding each to the batch's header.
    Cursor cursor
    int64_t count
    int64_t done
    int64_t next_delta
    int64_t last_delta
    bint consecutive


cdef inline Reason take_unsigned(Cursor *cursor, int bits, uint64_t *value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.at < cursor.end:
        byte = cursor.at[0]
        cursor.at += 1
        if shift + 7 > bits and byte >> (bits - shift):
            return BAD_VARINT  # too large, or going on where it must end
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = result
            return FINE
        shift += 7
    return BAD_VARINT


cdef inline Reason take_varint(Cursor *cursor, int32_t *value) noexcept nogil:
    cdef uint64_t raw
    cdef uint8_t byte
    if cursor.at < cursor.end and cursor.at[0] < 0x80:  # nearly all of them
        byte = cursor.at[0]
        cursor.at += 1
        value[0] = (byte >> 1) ^ -(byte & 1)
        return FINE
    cdef Reason reason = take_unsigned(cursor, 32, &raw)
    if reason == FINE:
        value[0] = <int32_t>((<uint32_t>raw >> 1) ^ (0 - (<uint32_t>raw & 1)))
    return reason


cdef inline Reason take_varlong(Cursor *cursor, int64_t *value) noexcept nogil:
    cdef uint64_t raw
    cdef Reason reason = take_unsigned(cursor, 64, &raw)
    if reason == FINE:
        value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return reason


cdef inline Reason take_slice(Cursor *cursor, bint nullable, Slice *piece) noexcept nogil:
    cdef int32_t size
    cdef Reason reason = take_varint(cursor, &size)
    if reason != FINE:
        return reason
    if size < 0:
        piece.data = cursor.at
        piece.size = -1
        return FINE if size == -1 and nullable else BAD_LENGTH
    if size > cursor.end - cursor.at:
        return PAST_END
    piece.data = cursor.at
    piece.size = size
    cursor.at += size
    return FINE


cdef inline Reason take_head(Cursor *cursor, RecordView *record) noexcept nogil:
    # Length, attributes and deltas; the cursor then stands behind the record.
    cdef int32_t size
    cdef Reason reason
    record.start = cursor.at
    reason = take_varint(cursor, &size)
    if reason != FINE:
        return reason
    if size < RECORD_BYTES_MIN - 1:
        return BAD_LENGTH
    if size > cursor.end - cursor.at:
        return PAST_END
    record.rest.at = cursor.at + 1  # nothing is said in a record's own attributes
    record.rest.end = cursor.at + size
    cursor.at += size
    reason = take_varlong(&record.rest, &record.timestamp_delta)
    if reason != FINE:
        return reason
    return take_varint(&record.rest, &record.offset_delta)


cdef inline Reason take_body(RecordView *record) noexcept nogil:
    # Key, value and the number of headers; `rest` then stands at the first header.
    cdef Reason reason = take_slice(&record.rest, True, &record.key)
    if reason != FINE:
        return reason
    reason = take_slice(&record.rest, True, &record.value)
    if reason != FINE:
        return reason
    reason = take_varint(&record.rest, &record.header_count)
    if reason != FINE:
        return reason
    if record.header_count < 0:
        return BAD_LENGTH
    if record.header_count > (record.rest.end - record.rest.at) // HEADER_ENTRY_BYTES_MIN:
        return PAST_END
    return FINE


cdef inline Reason take_header(Cursor *cursor, Slice *name, Slice *value) noexcept nogil:
    cdef Reason reason = take_slice(cursor, False, name)
    return reason if reason != FINE else take_slice(cursor, True, value)


cdef inline bint is_tag(Slice *name, Slice *value) noexcept nogil:
    # A header of that name without a value is a header like any other.
    return name.size == 3 and value.size >= 0 and memcmp(name.data, b"tag", 3) == 0


cdef inline Reason next_record(Walk *walk, RecordView *record) noexcept nogil:
    if walk.cursor.at == walk.cursor.end:
        return NO_MORE
    cdef Reason reason = take_head(&walk.cursor, record)
    if reason != FINE:
        return reason
    if record.offset_delta < walk.next_delta or record.offset_delta > walk.last_delta:
        return BAD_ORDER
    if walk.consecutive and record.offset_delta != walk.next_delta:
        return BAD_ORDER
    walk.next_delta = <int64_t>record.offset_delta + 1
    walk.done += 1
    return FINE


cdef inline Reason ended(Walk *walk) noexcept nogil:
    return FINE if walk.cursor.at == walk.cursor.end else LEFT_OVER


cdef int begin(
    Walk *walk, Py_buffer *view, Py_ssize_t start, Py_ssize_t stop, int64_t count, int64_t last_delta
) except -1:
    assert 0 <= start <= stop <= view.len, "the caller cuts the records out of bytes it has"
    if count < 0:
        raise CorruptBatch(f"a batch of {count} records")
    walk.cursor.at = <const uint8_t *>view.buf + start
    walk.cursor.end = <const uint8_t *>view.buf + stop
    walk.count = count
    walk.done = 0
    walk.next_delta = 0
    walk.last_delta = last_delta
    walk.consecutive = False
    return 0


cdef object refusal(Walk *walk, Reason reason):
    if reason == MEMORY_IS_OUT:
        return MemoryError()
    return CorruptBatch(f"record {walk.done + 1} of {walk.count}: {REASONS[reason]}")
