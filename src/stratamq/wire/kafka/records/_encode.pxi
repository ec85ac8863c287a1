# Writing records. Each is measured, room is made, and it is written: no Python code runs in between,
# so that nothing can change under our hands.

cdef inline int varint_size(uint64_t zigzag) noexcept nogil:
    cdef int size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline uint8_t *put_varint(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint64_t left = zigzag(value)
    while left >= 0x80:
        at[0] = <uint8_t>(left | 0x80)
        at += 1
        left >>= 7
    at[0] = <uint8_t>left
    return at + 1


cdef inline uint8_t *put_piece(uint8_t *at, object piece) noexcept:
    if piece is None:
        return put_varint(at, -1)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(piece)
    at = put_varint(at, size)
    memcpy(at, PyBytes_AS_STRING(piece), size)
    return at + size


cdef int refuse_piece(str what, object piece) except -1:
    raise InvalidRecord(f"a record's {what} must be bytes, not {type(piece).__name__}")


cdef inline Py_ssize_t piece_size(object piece, bint nullable, str what) except -1:
    if PyBytes_Check(piece):
        return varint_size(zigzag(PyBytes_GET_SIZE(piece))) + PyBytes_GET_SIZE(piece)
    if piece is None and nullable:
        return 1
    return refuse_piece(what, piece)


cdef inline int64_t number(object value, str what) except? -1:
    if not PyLong_Check(value):
        raise InvalidRecord(f"a record's {what} must be a whole number, not {type(value).__name__}")
    try:
        return PyLong_AsLongLong(value)
    except OverflowError:
        raise InvalidRecord(f"a record's {what} must fit 64 bits") from None


cdef struct Stamp:
    # What the batch's header needs to know of its records.
    int64_t now_ms
    int64_t base_offset
    bint keep_offsets
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t last_delta


cdef Py_ssize_t headers_size(tuple headers, tuple tags) except -1:
    cdef Py_ssize_t size = varint_size(zigzag(len(headers) + len(tags)))
    cdef object header, tag
    for header in headers:
        if not PyTuple_Check(header) or PyTuple_GET_SIZE(header) != 2:
            raise InvalidRecord("a record's header must be a pair of name and value")
        size += piece_size((<tuple>header)[0], False, "header name")
        size += piece_size((<tuple>header)[1], True, "header value")
    for tag in tags:
        size += 4 + piece_size(tag, False, "tag")
    return size


cdef uint8_t *put_headers(uint8_t *at, tuple headers, tuple tags) noexcept:
    cdef object header, tag
    at = put_varint(at, len(headers) + len(tags))
    for header in headers:
        at = put_piece(at, (<tuple>header)[0])
        at = put_piece(at, (<tuple>header)[1])
    for tag in tags:
        at = put_varint(at, 3)
        memcpy(at, b"tag", 3)
        at = put_piece(at + 3, tag)
    return at


cdef int64_t delta_of(object record, int64_t index, Stamp *stamp) except -1:
    if not stamp.keep_offsets:
        return index
    cdef int64_t offset = number(<object>PyTuple_GET_ITEM(record, 5), "offset")
    cdef int64_t delta
    if sub_overflows(offset, stamp.base_offset, &delta) or delta > INT32_MAX:
        raise InvalidRecord(f"offset {offset} is too far from base offset {stamp.base_offset}")
    if delta <= stamp.last_delta:
        raise InvalidRecord(f"offset {offset} does not ascend from base offset {stamp.base_offset}")
    return delta


cdef int64_t time_delta_of(object record, int64_t index, Stamp *stamp) except? -1:
    cdef int64_t timestamp = number(<object>PyTuple_GET_ITEM(record, 4), "timestamp")
    cdef int64_t delta
    if timestamp == -1:
        timestamp = stamp.now_ms
    if index == 0:
        stamp.base_timestamp = stamp.max_timestamp = timestamp
    if timestamp > stamp.max_timestamp:
        stamp.max_timestamp = timestamp
    if sub_overflows(timestamp, stamp.base_timestamp, &delta):
        raise InvalidRecord(f"timestamp {timestamp} is too far from {stamp.base_timestamp}")
    return delta


cdef int encode_one(Packed *packed, object record, int64_t index, Stamp *stamp) except -1:
    if not PyObject_TypeCheck(record, RECORD_TYPE):
        raise InvalidRecord(f"a Record is needed, not {type(record).__name__}")
    cdef object value = <object>PyTuple_GET_ITEM(record, 0)
    cdef object key = <object>PyTuple_GET_ITEM(record, 1)
    cdef object headers = <object>PyTuple_GET_ITEM(record, 2)
    cdef object tags = <object>PyTuple_GET_ITEM(record, 3)
    if not PyTuple_Check(headers) or not PyTuple_Check(tags):
        raise InvalidRecord("a record's headers and tags must be tuples")
    cdef int64_t delta = delta_of(record, index, stamp)
    cdef int64_t time_delta = time_delta_of(record, index, stamp)
    cdef Py_ssize_t size = (
        1
        + varint_size(zigzag(time_delta))
        + varint_size(zigzag(delta))
        + piece_size(key, True, "key")
        + piece_size(value, True, "value")
        + headers_size(<tuple>headers, <tuple>tags)
    )
    if packed.used + size > INT32_MAX - HEADER_BYTES:
        raise BatchTooLarge("a batch cannot hold 2 GiB")
    if not reserve(packed, size + 5):
        raise MemoryError()
    cdef uint8_t *at = put_varint(packed.data + packed.used, size)
    at[0] = 0
    at = put_varint(put_varint(at + 1, time_delta), delta)
    at = put_piece(put_piece(at, key), value)
    at = put_headers(at, <tuple>headers, <tuple>tags)
    packed.used = at - packed.data
    stamp.last_delta = delta
    return 0


def encode_records(records, int64_t now_ms, int64_t base_offset, bint keep_offsets):
    """The records' bytes, their first and largest timestamp, and the last offset delta."""
    cdef Packed packed = Packed(NULL, 0, 0)
    cdef Stamp stamp = Stamp(now_ms, base_offset, keep_offsets, 0, 0, -1)
    cdef int64_t index = 0
    cdef object record
    try:
        for record in records:
            encode_one(&packed, record, index, &stamp)
            index += 1
        if not index:
            raise InvalidRecord("a batch needs at least one record")
        return packed_bytes(&packed), stamp.base_timestamp, stamp.max_timestamp, stamp.last_delta
    finally:
        free(packed.data)
