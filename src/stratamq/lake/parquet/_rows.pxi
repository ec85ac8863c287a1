# Columns into records.

cdef enum:
    R_OFFSET = 0
    R_STAMP
    R_STAMP_VALID
    R_OWN_STAMP
    R_OWN_VALID
    R_KEY_AT
    R_KEY
    R_KEY_VALID
    R_VALUE_AT
    R_VALUE
    R_VALUE_VALID
    R_HEADERS_AT
    R_NAME_AT
    R_NAME
    R_HEADER_AT
    R_HEADER
    R_HEADER_VALID
    HELD


cdef struct Measured:
    int64_t content
    int64_t offset_delta
    int64_t time_delta


cdef inline uint8_t *put_varint(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint64_t left = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while left >= 0x80:
        at[0] = <uint8_t>(left | 0x80)
        at += 1
        left >>= 7
    at[0] = <uint8_t>left
    return at + 1


cdef inline uint8_t *put_piece(uint8_t *at, Slice *piece) noexcept nogil:
    at = put_varint(at, piece.size)
    if piece.size > 0:
        memcpy(at, piece.data, piece.size)
        at += piece.size
    return at


cdef class Rows:
    """Rows of a file as Arrow holds them. `records` writes any run of them as a batch's records.

    Buffers come in the order of PART_NAMES up to the headers, None where Arrow has none. A file may
    be damaged: every place is held against the bytes there are, each time it is used.

    Values may come later, a page at a time: after `await_values` rows can be written once
    `add_values` was called for their page. Pages may be added while others are read.
    """

    cdef Py_buffer views[HELD]
    cdef bint taken[HELD]
    cdef int64_t row_count
    cdef int64_t header_count
    cdef const uint8_t **value_data
    cdef int32_t *value_size
    cdef list pages

    def __cinit__(self):
        memset(self.taken, 0, sizeof(self.taken))
        self.value_data, self.value_size = NULL, NULL
        self.pages = []

    def __init__(self, int64_t rows, int64_t headers, list buffers not None):
        cdef int part
        assert len(buffers) == HELD, "a buffer for every part, or None"
        self.row_count, self.header_count = rows, headers
        for part in range(HELD):
            if buffers[part] is not None:
                PyObject_GetBuffer(buffers[part], &self.views[part], PyBUF_SIMPLE)
                self.taken[part] = True
        self._check_sizes()

    def __dealloc__(self):
        cdef int part
        for part in range(HELD):
            if self.taken[part]:
                PyBuffer_Release(&self.views[part])
        free(self.value_data)
        free(self.value_size)

    def await_values(self):
        """There is no column of values: they are given by page."""
        cdef int64_t row
        self.value_data = <const uint8_t **>malloc(self.row_count * sizeof(void *) + 1)
        self.value_size = <int32_t *>malloc(self.row_count * sizeof(int32_t) + 1)
        if self.value_data is NULL or self.value_size is NULL:
            raise MemoryError()
        for row in range(self.row_count):
            self.value_size[row] = ABSENT

    def add_values(self, page, int64_t first, int64_t count):
        """The values of rows first.., out of an unpacked page, whose bytes are used where they
        are."""
        cdef Py_buffer view
        cdef int trouble
        if self.value_size is NULL or first < 0 or not 0 <= count <= self.row_count - first:
            raise CorruptBatch("a page of values has more of them than there are rows")
        held = memoryview(page)
        PyObject_GetBuffer(held, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                trouble = self._take_page(<const uint8_t *>view.buf, view.len, first, count)
        finally:
            PyBuffer_Release(&view)
        if trouble != FINE:
            raise CorruptBatch("a page of values is damaged: " + REASONS[trouble])
        self.pages.append(held)

    cdef int _take_page(
        self, const uint8_t *data, Py_ssize_t size, int64_t first, int64_t count
    ) noexcept nogil:
        cdef Cursor cursor = Cursor(data, data + size)
        cdef int64_t row
        cdef int trouble = take_levels(&cursor, count, self.value_size + first)
        if trouble == FINE:
            trouble = take_lengths(&cursor, count, self.value_size + first)
        for row in range(first, first + count if trouble == FINE else first):
            if self.value_size[row] > cursor.end - cursor.at:
                trouble = PAST_END
                break
            self.value_data[row] = cursor.at
            if self.value_size[row] > 0:
                cursor.at += self.value_size[row]
        if trouble != FINE:
            for row in range(first, first + count):
                self.value_size[row] = ABSENT
        return trouble

    cdef int _check_sizes(self) except -1:
        cdef int64_t rows = self.row_count, headers = self.header_count
        assert rows >= 0 and headers >= 0
        for part in (R_OFFSET, R_STAMP, R_OWN_STAMP):
            self._check(part, 8 * rows)
        for part in (R_KEY_AT, R_HEADERS_AT):
            self._check(part, 4 * (rows + 1) if rows else 0)
        if self.taken[R_VALUE_AT]:
            self._check(R_VALUE_AT, 4 * (rows + 1) if rows else 0)
        for part in (R_NAME_AT, R_HEADER_AT):
            self._check(part, 4 * (headers + 1) if headers else 0)
        for part in (R_STAMP_VALID, R_OWN_VALID, R_KEY_VALID, R_VALUE_VALID):
            if self.taken[part]:
                self._check(part, (rows + 7) >> 3)
        if self.taken[R_HEADER_VALID]:
            self._check(R_HEADER_VALID, (headers + 7) >> 3)
        return 0

    cdef int _check(self, int part, int64_t size) except -1:
        if size and (not self.taken[part] or self.views[part].len < size):
            raise CorruptBatch(f"the column of {PART_NAMES[part]} is too short for its rows")
        return 0

    def batches(self, table, int64_t first, int64_t stop, int64_t room):
        """The batches of entries first..stop-1 of a block, unpacked, one behind the other: as many
        as `room` has bytes for, or one. With them, how many they are."""
        cdef Py_buffer view
        cdef const uint8_t *entry
        cdef int64_t size = 0, done = 0
        cdef int trouble
        cdef bytes out
        cdef uint8_t *at
        PyObject_GetBuffer(table, &view, PyBUF_SIMPLE)
        try:
            if not 0 <= first <= stop <= view.len // ENTRY_BYTES:
                raise CorruptBatch("there are fewer entries of batches")
            entry = <const uint8_t *>view.buf + first * ENTRY_BYTES
            with nogil:
                trouble = self._measure_entries(entry, stop - first, room, &done, &size)
            if trouble != FINE:
                raise CorruptBatch("the rows do not make records: " + REASONS[trouble])
            out = PyBytes_FromStringAndSize(NULL, size)
            at = <uint8_t *>PyBytes_AS_STRING(out)
            with nogil:
                self._write_entries(entry, done, at)
            return out, done
        finally:
            PyBuffer_Release(&view)

    cdef int _measure_entries(
        self, const uint8_t *entry, int64_t count, int64_t room, int64_t *done, int64_t *size
    ) noexcept nogil:
        # Damage behind the first batch ends the run before it.
        cdef EntryView found
        cdef int64_t one
        cdef int trouble
        while done[0] < count:
            read_entry(entry, &found)
            one = HEADER_BYTES
            trouble = BAD_LENGTH
            if 0 <= found.count <= self.row_count - found.first_row:
                trouble = self._measure_all(found.first_row, found.count, &found.frame, &one)
            if trouble == FINE and (
                one > INT32_MAX or (not found.packed and one != found.length + LENGTH_END)
            ):
                trouble = BAD_LENGTH
            if trouble != FINE:
                return FINE if done[0] else trouble
            if done[0] and size[0] + one > room:
                return FINE
            size[0] += one
            done[0] += 1
            entry += ENTRY_BYTES
        return FINE

    cdef void _write_entries(self, const uint8_t *entry, int64_t count, uint8_t *at) noexcept nogil:
        cdef EntryView found
        cdef uint8_t *start
        cdef uint32_t length
        for _ in range(count):
            read_entry(entry, &found)
            start = at
            memcpy(at, entry, HEADER_BYTES)
            at = self._write_all(found.first_row, found.count, &found.frame, at + HEADER_BYTES)
            if found.packed:
                length = htobe32(<uint32_t>(at - start - LENGTH_END))
                memcpy(start + LENGTH_AT, &length, 4)
                start[ATTRIBUTES_LOW_AT] &= 0xFF ^ CODEC_MASK
            entry += ENTRY_BYTES

    def records(self, int64_t first, int64_t count, int64_t base_offset, int64_t base_timestamp,
                bytes head not None):
        """`head`, and behind it the records of these rows as a batch of these bases has them."""
        cdef int64_t size = 0
        cdef int trouble
        cdef bytes out
        cdef Frame frame = Frame(base_offset, base_timestamp, 0, False)
        if first < 0 or count < 0 or count > self.row_count - first:
            raise CorruptBatch("the batch has more records than there are rows")
        with nogil:
            trouble = self._measure_all(first, count, &frame, &size)
        if trouble != FINE or size > INT32_MAX:
            raise CorruptBatch("the rows do not make records: a place or a stamp is impossible")
        out = PyBytes_FromStringAndSize(NULL, len(head) + size)
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(out)
        memcpy(at, PyBytes_AS_STRING(head), len(head))
        at += len(head)
        with nogil:
            self._write_all(first, count, &frame, at)
        return out

    cdef inline bint _is_valid(self, int part, int64_t index) noexcept nogil:
        if not self.taken[part]:
            return True
        return ((<const uint8_t *>self.views[part].buf)[index >> 3] >> (index & 7)) & 1

    cdef inline int64_t _number(self, int part, int64_t index) noexcept nogil:
        return (<const int64_t *>self.views[part].buf)[index]

    cdef inline int _slice(self, int at, int data, int64_t index, Slice *piece) noexcept nogil:
        cdef int64_t start = (<const int32_t *>self.views[at].buf)[index]
        cdef int64_t stop = (<const int32_t *>self.views[at].buf)[index + 1]
        cdef int64_t room = self.views[data].len if self.taken[data] else 0
        if start < 0 or start > stop or stop > room:
            return PAST_END
        piece.data = <const uint8_t *>self.views[data].buf + start if stop > start else NULL
        piece.size = stop - start
        return FINE

    cdef inline int _nullable(
        self, int at, int data, int valid, int64_t index, Slice *piece
    ) noexcept nogil:
        if not self._is_valid(valid, index):
            piece.data = NULL
            piece.size = -1
            return FINE
        return self._slice(at, data, index, piece)

    cdef inline int _value(self, int64_t row, Slice *piece) noexcept nogil:
        if self.value_size is NULL:
            if not self.taken[R_VALUE_AT]:
                return PAST_END
            return self._nullable(R_VALUE_AT, R_VALUE, R_VALUE_VALID, row, piece)
        if self.value_size[row] == ABSENT:
            return PAST_END
        piece.data = self.value_data[row]
        piece.size = self.value_size[row]
        return FINE

    cdef int _header_range(self, int64_t row, int64_t *start, int64_t *stop) noexcept nogil:
        start[0] = (<const int32_t *>self.views[R_HEADERS_AT].buf)[row]
        stop[0] = (<const int32_t *>self.views[R_HEADERS_AT].buf)[row + 1]
        if start[0] < 0 or start[0] > stop[0] or stop[0] > self.header_count:
            return PAST_END
        return FINE

    cdef int _measure(self, int64_t row, Frame *frame, Measured *found) noexcept nogil:
        cdef Slice key, value
        cdef int64_t start, stop, index, stamp
        stamp = self._number(R_OWN_STAMP if self._is_valid(R_OWN_VALID, row) else R_STAMP, row)
        if sub_overflows(stamp, frame.base_timestamp, &found.time_delta):
            return BAD_TIME
        if sub_overflows(self._number(R_OFFSET, row), frame.base_offset, &found.offset_delta):
            return BAD_ORDER
        if found.offset_delta < 0 or found.offset_delta > INT32_MAX:
            return BAD_ORDER
        if self._nullable(R_KEY_AT, R_KEY, R_KEY_VALID, row, &key) != FINE:
            return PAST_END
        if self._value(row, &value) != FINE:
            return PAST_END
        if self._header_range(row, &start, &stop) != FINE:
            return PAST_END
        found.content = (
            1 + varint_size(found.time_delta) + varint_size(found.offset_delta)
            + piece_size(key.size) + piece_size(value.size) + varint_size(stop - start)
        )
        for index in range(start, stop):
            if self._slice(R_NAME_AT, R_NAME, index, &key) != FINE:
                return PAST_END
            if self._nullable(R_HEADER_AT, R_HEADER, R_HEADER_VALID, index, &value) != FINE:
                return PAST_END
            found.content += piece_size(key.size) + piece_size(value.size)
        return FINE if found.content <= INT32_MAX else BAD_LENGTH

    cdef int _measure_all(
        self, int64_t first, int64_t count, Frame *frame, int64_t *size
    ) noexcept nogil:
        cdef Measured found
        cdef int64_t row
        cdef int trouble
        for row in range(first, first + count):
            trouble = self._measure(row, frame, &found)
            if trouble != FINE:
                return trouble
            size[0] += found.content + varint_size(found.content)
        return FINE

    cdef uint8_t *_write_all(
        self, int64_t first, int64_t count, Frame *frame, uint8_t *at
    ) noexcept nogil:
        # Arrow's buffers do not change: what was measured is what is written.
        cdef Measured found
        cdef Slice key = Slice(NULL, -1), value = Slice(NULL, -1)
        cdef int64_t row, index, start = 0, stop = 0
        for row in range(first, first + count):
            self._measure(row, frame, &found)
            at = put_varint(at, found.content)
            at[0] = 0
            at = put_varint(put_varint(at + 1, found.time_delta), found.offset_delta)
            self._nullable(R_KEY_AT, R_KEY, R_KEY_VALID, row, &key)
            self._value(row, &value)
            at = put_piece(put_piece(at, &key), &value)
            self._header_range(row, &start, &stop)
            at = put_varint(at, stop - start)
            for index in range(start, stop):
                self._slice(R_NAME_AT, R_NAME, index, &key)
                self._nullable(R_HEADER_AT, R_HEADER, R_HEADER_VALID, index, &value)
                at = put_piece(put_piece(at, &key), &value)
        return at
