# Making records. They are tuples filled by position: the constructor would cost more than the parsing.

cdef inline object bytes_or_none(Slice *piece):
    if piece.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>piece.data, piece.size)


cdef Py_ssize_t count_tags(Walk *walk, RecordView *record) except -1:
    # Checks every header on the way, so that nothing is made of a damaged record.
    cdef Cursor cursor = record.rest
    cdef Slice name, value
    cdef Reason reason
    cdef Py_ssize_t found = 0
    cdef int32_t i
    for i in range(record.header_count):
        reason = take_header(&cursor, &name, &value)
        if reason != FINE:
            raise refusal(walk, reason)
        found += is_tag(&name, &value)
    if cursor.at != cursor.end:
        raise refusal(walk, LEFT_OVER)
    return found


cdef tuple split_headers(Walk *walk, RecordView *record):
    # (headers, tags). A second pass over the same bytes: a bytearray may have changed in between, so it checks too.
    cdef Py_ssize_t tag_count = count_tags(walk, record)
    cdef Py_ssize_t header_count = record.header_count - tag_count
    cdef tuple headers = PyTuple_New(header_count) if header_count else ()
    cdef tuple tags = PyTuple_New(tag_count) if tag_count else ()
    cdef Py_ssize_t header_index = 0, tag_index = 0
    cdef Slice name, value
    cdef Reason reason
    cdef int32_t i
    for i in range(record.header_count):
        reason = take_header(&record.rest, &name, &value)
        if reason != FINE:
            raise refusal(walk, reason)
        if is_tag(&name, &value):
            if tag_index == tag_count:
                raise refusal(walk, LEFT_OVER)
            give(tags, tag_index, bytes_or_none(&value))
            tag_index += 1
        else:
            if header_index == header_count:
                raise refusal(walk, LEFT_OVER)
            give(headers, header_index, (bytes_or_none(&name), bytes_or_none(&value)))
            header_index += 1
    return headers, tags


cdef object new_record(Walk *walk, RecordView *parsed, object timestamp, object offset):
    cdef tuple headers = (), tags = ()
    if parsed.header_count:
        headers, tags = split_headers(walk, parsed)
    elif parsed.rest.at != parsed.rest.end:
        raise refusal(walk, LEFT_OVER)
    cdef object value = bytes_or_none(&parsed.value)
    cdef object key = bytes_or_none(&parsed.key)
    cdef object record = new_tuple(RECORD_TYPE, 6)
    give(record, 0, value)
    give(record, 1, key)
    give(record, 2, headers)
    give(record, 3, tags)
    give(record, 4, timestamp)
    give(record, 5, offset)
    # Bytes, numbers and tuples of them cannot form a cycle: the collector need not look at them.
    PyObject_GC_UnTrack(<PyObject *>record)
    return record


cdef object decode_one(
    Walk *walk, RecordView *parsed, int64_t base_offset, int64_t base_timestamp, object append_time
):
    cdef int64_t timestamp, offset
    cdef Reason reason = take_body(parsed)
    if reason == FINE and add_overflows(base_timestamp, parsed.timestamp_delta, &timestamp):
        reason = BAD_TIME
    if reason == FINE and add_overflows(base_offset, parsed.offset_delta, &offset):
        reason = BAD_ORDER
    if reason != FINE:
        raise refusal(walk, reason)
    return new_record(walk, parsed, timestamp if append_time is None else append_time, offset)


def decode_records(
    data,
    Py_ssize_t start,
    Py_ssize_t stop,
    int64_t count,
    int64_t last_offset_delta,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    list wanted,
):
    """The records, or those whose deltas are in the ascending list `wanted`."""
    cdef Py_buffer view
    cdef Walk walk
    cdef RecordView parsed
    cdef Reason reason
    cdef Py_ssize_t index = 0
    cdef list records = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(&walk, &view, start, stop, count, last_offset_delta)
        while walk.done < walk.count:
            reason = next_record(&walk, &parsed)
            if reason != FINE:
                raise refusal(&walk, reason)
            if wanted is None or listed(wanted, &index, parsed.offset_delta):
                records.append(decode_one(&walk, &parsed, base_offset, base_timestamp, append_time))
        reason = ended(&walk)
        if reason != FINE:
            raise refusal(&walk, reason)
        return records
    finally:
        PyBuffer_Release(&view)
