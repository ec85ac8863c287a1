# Records into columns.

cdef enum:
    OFFSET = 0
    STAMP
    STAMP_VALID
    OWN_STAMP
    OWN_VALID
    KEY_AT
    KEY
    KEY_VALID
    VALUE_AT
    VALUE
    VALUE_VALID
    HEADERS_AT
    NAME_AT
    NAME
    HEADER_AT
    HEADER
    HEADER_VALID
    TAGS_AT
    TAG_AT
    TAG
    PARTS

PART_NAMES = (
    "offset", "stamp", "stamp_valid", "own_stamp", "own_valid", "key_at", "key", "key_valid",
    "value_at", "value", "value_valid", "headers_at", "name_at", "name", "header_at", "header",
    "header_valid", "tags_at", "tag_at", "tag",
)
assert len(PART_NAMES) == PARTS, "a name for every buffer"

cdef enum:
    # Beside the reasons why a record cannot be parsed.
    NO_MEMORY = 100
    TOO_MUCH

cdef int64_t STAMP_MAX = 253402300799999  # the last millisecond of the year 9999


cdef struct Frame:
    # What a batch's header says about all its records.
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint uses_append_time


cdef inline int varint_size(int64_t value) noexcept nogil:
    cdef uint64_t left = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while left >= 0x80:
        left >>= 7
        size += 1
    return size


cdef inline int64_t piece_size(Py_ssize_t size) noexcept nogil:
    return varint_size(size) + (size if size > 0 else 0)


cdef class Columns:
    """The records of many batches, column by column, until `take` gives them away.

    After an error the columns hold part of a batch: throw them away.
    """

    cdef Room rooms[PARTS]
    cdef int64_t row_count
    cdef int64_t header_count
    cdef int64_t tag_count
    cdef int64_t nulls[5]

    def __cinit__(self):
        memset(self.rooms, 0, sizeof(self.rooms))
        self._begin()

    def __dealloc__(self):
        cdef int part
        for part in range(PARTS):
            free(self.rooms[part].data)

    cdef int _begin(self) except -1:
        cdef int part
        self.row_count = self.header_count = self.tag_count = 0
        memset(self.nulls, 0, sizeof(self.nulls))
        for part in (KEY_AT, VALUE_AT, HEADERS_AT, NAME_AT, HEADER_AT, TAGS_AT, TAG_AT):
            if not grow(&self.rooms[part], 4):
                raise MemoryError()
            push_i32(&self.rooms[part], 0)
        return 0

    @property
    def rows(self):
        return self.row_count

    @property
    def size_bytes(self):
        cdef int part
        cdef Py_ssize_t size = 0
        for part in range(PARTS):
            size += self.rooms[part].used
        return size

    def add(
        self,
        data,
        Py_ssize_t start,
        Py_ssize_t stop,
        int64_t count,
        int64_t last_offset_delta,
        int64_t base_offset,
        int64_t base_timestamp,
        append_time,
    ):
        """Take the records in data[start:stop]. Whether writing them anew gives the same bytes."""
        cdef Py_buffer view
        cdef Walk walk
        cdef Frame frame = Frame(base_offset, base_timestamp, 0, append_time is not None)
        cdef bint same = True
        cdef int trouble
        if frame.uses_append_time:
            frame.append_time = append_time
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            begin(&walk, &view, start, stop, count, last_offset_delta)
            with nogil:
                trouble = self._add_all(&walk, &frame, &same)
            if trouble == NO_MEMORY:
                raise MemoryError()
            if trouble == TOO_MUCH:
                raise BatchTooLarge("a column of a row group cannot hold more than 2 GiB")
            if trouble != FINE:
                raise refusal(&walk, <Reason>trouble)
            return same
        finally:
            PyBuffer_Release(&view)

    def take(self):
        """All buffers by name, how many rows, headers and tags they hold, and their nulls."""
        cdef int part
        cdef dict buffers = {}
        for part in range(PARTS):
            buffers[PART_NAMES[part]] = lend(&self.rooms[part])
        counts = (self.row_count, self.header_count, self.tag_count)
        nulls = tuple(self.nulls[part] for part in range(5))
        self._begin()
        return buffers, counts, nulls

    cdef int _add_all(self, Walk *walk, Frame *frame, bint *same) noexcept nogil:
        cdef RecordView record
        cdef int trouble
        if walk.count > (walk.cursor.end - walk.cursor.at) // RECORD_BYTES_MIN:
            return NO_MORE
        if not self._make_room(walk.count):
            return NO_MEMORY
        while walk.done < walk.count:
            trouble = next_record(walk, &record)
            if trouble == FINE:
                trouble = take_body(&record)
            if trouble == FINE:
                trouble = self._add_record(&record, frame, same)
            if trouble != FINE:
                return trouble
        return ended(walk)

    cdef bint _make_room(self, int64_t count) noexcept nogil:
        # For what every record has; the bytes themselves are seen to as they come.
        cdef Room *rooms = self.rooms
        cdef Py_ssize_t bits = (count >> 3) + 2
        return (
            grow(&rooms[OFFSET], 8 * count) and grow(&rooms[STAMP], 8 * count)
            and grow(&rooms[OWN_STAMP], 8 * count) and grow(&rooms[STAMP_VALID], bits)
            and grow(&rooms[OWN_VALID], bits) and grow(&rooms[KEY_VALID], bits)
            and grow(&rooms[VALUE_VALID], bits) and grow(&rooms[KEY_AT], 4 * count)
            and grow(&rooms[VALUE_AT], 4 * count) and grow(&rooms[HEADERS_AT], 4 * count)
            and grow(&rooms[TAGS_AT], 4 * count)
        )

    cdef int _add_record(self, RecordView *record, Frame *frame, bint *same) noexcept nogil:
        cdef int64_t stamp, offset, content
        cdef int trouble
        if add_overflows(frame.base_timestamp, record.timestamp_delta, &stamp):
            return BAD_TIME
        if add_overflows(frame.base_offset, record.offset_delta, &offset):
            return BAD_ORDER
        push_i64(&self.rooms[OFFSET], offset)
        self._add_stamps(stamp, frame)
        trouble = self._add_piece(&record.key, KEY_AT, KEY, KEY_VALID, self.row_count, 2)
        if trouble == FINE:
            trouble = self._add_piece(&record.value, VALUE_AT, VALUE, VALUE_VALID, self.row_count, 3)
        content = (
            1 + varint_size(record.timestamp_delta) + varint_size(record.offset_delta)
            + piece_size(record.key.size) + piece_size(record.value.size)
            + varint_size(record.header_count)
        )
        if trouble == FINE:
            trouble = self._add_headers(record, &content)
        if trouble != FINE:
            return trouble
        self.row_count += 1
        # Padded varints and a record's own attributes are the only things that columns do not keep.
        if record.rest.end - record.start != content + varint_size(content):
            same[0] = False
        elif record.start[varint_size(content)]:
            same[0] = False
        return FINE

    cdef void _add_stamps(self, int64_t stamp, Frame *frame) noexcept nogil:
        # What readers see; and the record's own stamp where that is another or no date.
        cdef int64_t seen = frame.append_time if frame.uses_append_time else stamp
        cdef bint dated = 0 <= seen <= STAMP_MAX
        cdef bint apart = not dated or seen != stamp
        push_bit(&self.rooms[STAMP_VALID], self.row_count, dated)
        push_bit(&self.rooms[OWN_VALID], self.row_count, apart)
        push_i64(&self.rooms[STAMP], seen if dated else 0)
        push_i64(&self.rooms[OWN_STAMP], stamp if apart else 0)
        self.nulls[0] += not dated
        self.nulls[1] += not apart

    cdef int _add_piece(
        self, Slice *piece, int at, int data, int valid, int64_t index, int kind
    ) noexcept nogil:
        # Room for its place and its bit was made.
        push_bit(&self.rooms[valid], index, piece.size >= 0)
        self.nulls[kind] += piece.size < 0
        return self._add_bytes(piece, at, data)

    cdef inline int _add_bytes(self, Slice *piece, int at, int data) noexcept nogil:
        if piece.size > 0:
            if piece.size > INT32_MAX - self.rooms[data].used:
                return TOO_MUCH
            if not push_bytes(&self.rooms[data], piece.data, piece.size):
                return NO_MEMORY
        push_i32(&self.rooms[at], <int32_t>self.rooms[data].used)
        return FINE

    cdef int _add_headers(self, RecordView *record, int64_t *content) noexcept nogil:
        cdef Slice name, value
        cdef int trouble
        cdef int32_t i
        if record.header_count and not self._make_header_room(record.header_count):
            return NO_MEMORY
        for i in range(record.header_count):
            trouble = take_header(&record.rest, &name, &value)
            if trouble == FINE:
                trouble = self._add_header(&name, &value)
            if trouble != FINE:
                return trouble
            content[0] += piece_size(name.size) + piece_size(value.size)
        if record.rest.at != record.rest.end:
            return LEFT_OVER
        if self.header_count > INT32_MAX:
            return TOO_MUCH
        push_i32(&self.rooms[HEADERS_AT], <int32_t>self.header_count)
        push_i32(&self.rooms[TAGS_AT], <int32_t>self.tag_count)
        return FINE

    cdef bint _make_header_room(self, int64_t count) noexcept nogil:
        cdef Room *rooms = self.rooms
        return (
            grow(&rooms[NAME_AT], 4 * count) and grow(&rooms[HEADER_AT], 4 * count)
            and grow(&rooms[HEADER_VALID], (count >> 3) + 2) and grow(&rooms[TAG_AT], 4 * count)
        )

    cdef int _add_header(self, Slice *name, Slice *value) noexcept nogil:
        # A tag is a header too: it keeps its place among them, and is a tag beside.
        cdef int trouble = self._add_bytes(name, NAME_AT, NAME)
        if trouble == FINE:
            trouble = self._add_piece(
                value, HEADER_AT, HEADER, HEADER_VALID, self.header_count, 4
            )
        self.header_count += 1
        if trouble == FINE and is_tag(name, value):
            self.tag_count += 1
            trouble = self._add_bytes(value, TAG_AT, TAG)
        return trouble
