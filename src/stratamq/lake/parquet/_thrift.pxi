# Thrift's compact protocol, as far as Parquet uses it.

cdef enum:
    T_TRUE = 1
    T_FALSE = 2
    T_BYTE = 3
    T_I16 = 4
    T_I64 = 6
    T_DOUBLE = 7
    T_BINARY = 8
    T_LIST = 9
    T_STRUCT = 12
    T_DEPTH_MAX = 16


def read_thrift(data, Py_ssize_t position=0):
    """The struct at `position`, as a dict by field number, and where it ends."""
    cdef Py_buffer view
    cdef Cursor cursor
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= view.len:
            raise CorruptBatch("a struct of Parquet lies outside its bytes")
        cursor.at = <const uint8_t *>view.buf + position
        cursor.end = <const uint8_t *>view.buf + view.len
        found = thrift_struct(&cursor, 0)
        return found, cursor.at - <const uint8_t *>view.buf
    finally:
        PyBuffer_Release(&view)


cdef uint64_t thrift_unsigned(Cursor *cursor) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t raw
    if take_unsigned(cursor, 64, &raw) != FINE:
        raise CorruptBatch("a number of Parquet is cut off")
    return raw


cdef int64_t thrift_number(Cursor *cursor) except? -1:
    cdef uint64_t raw = thrift_unsigned(cursor)
    return <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)


cdef int thrift_byte(Cursor *cursor) except -1:
    if cursor.at >= cursor.end:
        raise CorruptBatch("a struct of Parquet is cut off")
    cursor.at += 1
    return (cursor.at - 1)[0]


cdef bytes thrift_bytes(Cursor *cursor, uint64_t size):
    if size > <uint64_t>(cursor.end - cursor.at):
        raise CorruptBatch("a text of Parquet is cut off")
    cursor.at += size
    return PyBytes_FromStringAndSize(<const char *>cursor.at - size, size)


cdef dict thrift_struct(Cursor *cursor, int depth):
    cdef dict found = {}
    cdef int64_t field = 0
    cdef int head = thrift_byte(cursor)
    while head:
        field = field + (head >> 4) if head >> 4 else thrift_number(cursor)
        if head & 15 in (T_TRUE, T_FALSE):
            found[field] = head & 15 == T_TRUE
        else:
            found[field] = thrift_value(cursor, head & 15, depth + 1)
        head = thrift_byte(cursor)
    return found


cdef list thrift_list(Cursor *cursor, int depth):
    cdef int head = thrift_byte(cursor)
    cdef uint64_t size = <uint64_t>(head >> 4)
    if size == 15:
        size = thrift_unsigned(cursor)
    if size > <uint64_t>(cursor.end - cursor.at):
        raise CorruptBatch("a list of Parquet is longer than its bytes")
    return [thrift_value(cursor, head & 15, depth + 1) for _ in range(size)]


cdef object thrift_value(Cursor *cursor, int kind, int depth):
    if depth > T_DEPTH_MAX:
        raise CorruptBatch("a struct of Parquet is too deep")
    if T_I16 <= kind <= T_I64:
        return thrift_number(cursor)
    if kind in (T_TRUE, T_FALSE):  # in a list
        return thrift_byte(cursor) == T_TRUE
    if kind == T_BYTE:
        return thrift_byte(cursor)
    if kind == T_BINARY:
        return thrift_bytes(cursor, thrift_unsigned(cursor))
    if kind == T_DOUBLE:
        return thrift_bytes(cursor, 8)
    if kind == T_LIST:
        return thrift_list(cursor, depth)
    if kind == T_STRUCT:
        return thrift_struct(cursor, depth)
    raise CorruptBatch("a field of Parquet has an unknown type")
