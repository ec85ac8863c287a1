# Walking records without making any.

cdef struct Packed:
    # A growing array of bytes.
    uint8_t *data
    Py_ssize_t used
    Py_ssize_t room


cdef inline bint reserve(Packed *packed, Py_ssize_t more) noexcept nogil:
    # Whether there is memory for so many bytes more.
    cdef Py_ssize_t room
    cdef void *moved
    if packed.room - packed.used >= more:
        return True
    room = max(packed.used + more, 2 * packed.room, 512)
    moved = realloc(packed.data, room)
    if moved is NULL:
        return False
    packed.data = <uint8_t *>moved
    packed.room = room
    return True


cdef inline bytes packed_bytes(Packed *packed):
    return PyBytes_FromStringAndSize(<const char *>packed.data, packed.used) if packed.used else b""


cdef inline uint64_t fnv1a(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t value = 0xCBF29CE484222325ULL
    cdef Py_ssize_t i
    for i in range(size):
        value = (value ^ data[i]) * 0x100000001B3ULL
    return value


cdef inline bint add_entry(Packed *packed, Slice *piece, int32_t delta) noexcept nogil:
    cdef uint64_t value = fnv1a(piece.data, piece.size)
    cdef uint8_t *at
    cdef int i
    if not reserve(packed, ENTRY_BYTES):
        return False
    at = packed.data + packed.used
    for i in range(8):
        at[i] = <uint8_t>(value >> (56 - 8 * i))
    for i in range(4):
        at[8 + i] = <uint8_t>(<uint32_t>delta >> (24 - 8 * i))
    packed.used += ENTRY_BYTES
    return True


def key_hash(data):
    """FNV-1a 64 of the bytes: what a scan packs for keys and tags."""
    cdef Py_buffer view
    cdef uint64_t value
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    value = fnv1a(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


cdef struct Scan:
    Packed keys
    Packed tags
    bint wants_keys
    bint wants_tags
    bint null_keys
    int64_t max_timestamp


cdef Reason scan_headers(RecordView *record, Scan *scan) noexcept nogil:
    cdef Slice name, value
    cdef Reason reason
    cdef int32_t i
    for i in range(record.header_count):
        reason = take_header(&record.rest, &name, &value)
        if reason != FINE:
            return reason
        if scan.wants_tags and is_tag(&name, &value):
            if not add_entry(&scan.tags, &value, record.offset_delta):
                return MEMORY_IS_OUT
    return FINE


cdef Reason take_whole(Walk *walk, int64_t base_timestamp, RecordView *record, int64_t *timestamp) noexcept nogil:
    # The next record up to its headers, and its time.
    cdef Reason reason = next_record(walk, record)
    if reason == FINE:
        reason = take_body(record)
    if reason == FINE and add_overflows(base_timestamp, record.timestamp_delta, timestamp):
        reason = BAD_TIME
    return reason


cdef Reason scan_one(Walk *walk, int64_t base_timestamp, Scan *scan) noexcept nogil:
    cdef RecordView record
    cdef int64_t timestamp
    cdef Reason reason = take_whole(walk, base_timestamp, &record, &timestamp)
    if reason != FINE:
        return reason
    if record.header_count:
        reason = scan_headers(&record, scan)
        if reason != FINE:
            return reason
    if record.rest.at != record.rest.end:
        return LEFT_OVER
    if timestamp > scan.max_timestamp:
        scan.max_timestamp = timestamp
    if record.key.size < 0:
        scan.null_keys = True
    elif scan.wants_keys and not add_entry(&scan.keys, &record.key, record.offset_delta):
        return MEMORY_IS_OUT
    return FINE


cdef Reason scan_all(Walk *walk, int64_t base_timestamp, Scan *scan) noexcept nogil:
    cdef Reason reason
    while walk.done < walk.count:
        reason = scan_one(walk, base_timestamp, scan)
        if reason != FINE:
            return reason
    return ended(walk)


cdef enum:
    ALONE_MAX = 1 << 20  # bytes; what takes longer lets other threads run meanwhile


cdef int scan_walk(Walk *walk, int64_t base_timestamp, Scan *scan) except -1:
    cdef Reason reason
    if walk.cursor.end - walk.cursor.at <= ALONE_MAX:  # to give the GIL away costs more than that
        reason = scan_all(walk, base_timestamp, scan)
    else:
        with nogil:
            reason = scan_all(walk, base_timestamp, scan)
    if reason != FINE:
        raise refusal(walk, reason)
    return 0


def scan_records(
    data,
    Py_ssize_t start,
    Py_ssize_t stop,
    int64_t count,
    int64_t last_offset_delta,
    int64_t base_timestamp,
    bint consecutive,
    bint keys,
    bint tags,
):
    """Packed keys, packed tags, the largest timestamp, and whether some key is null."""
    cdef Py_buffer view
    cdef Walk walk
    cdef Scan scan = Scan(
        Packed(NULL, 0, 0), Packed(NULL, 0, 0), keys, tags, False, INT64_MIN
    )
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(&walk, &view, start, stop, count, last_offset_delta)
        walk.consecutive = consecutive
        scan_walk(&walk, base_timestamp, &scan)
        return packed_bytes(&scan.keys), packed_bytes(&scan.tags), scan.max_timestamp, scan.null_keys
    finally:
        free(scan.keys.data)
        free(scan.tags.data)
        PyBuffer_Release(&view)


cdef enum:
    FAULTS_MAX = 100


cdef struct Faults:
    # Records that are to be named: by a key that is missing, or by a time that is out of range.
    bint keyless
    int64_t earliest
    int64_t latest
    int count
    int32_t[FAULTS_MAX] places


cdef Reason find_all(Walk *walk, int64_t base_timestamp, Faults *faults) noexcept nogil:
    cdef RecordView record
    cdef int64_t timestamp
    cdef Reason reason
    while walk.done < walk.count and faults.count < FAULTS_MAX:
        reason = take_whole(walk, base_timestamp, &record, &timestamp)
        if reason != FINE:
            return reason
        if (faults.keyless and record.key.size < 0) or (
            timestamp != -1 and not faults.earliest <= timestamp <= faults.latest
        ):
            faults.places[faults.count] = <int32_t>(walk.done - 1)
            faults.count += 1
    return FINE


def find_faults(
    data,
    Py_ssize_t start,
    Py_ssize_t stop,
    int64_t count,
    int64_t last_offset_delta,
    int64_t base_timestamp,
    bint keyless,
    int64_t earliest,
    int64_t latest,
):
    """The places of the first records that have no key (if that is asked) or a time, other than -1,
    outside of earliest..latest."""
    cdef Py_buffer view
    cdef Walk walk
    cdef Faults faults
    cdef Reason reason
    faults.keyless, faults.earliest, faults.latest, faults.count = keyless, earliest, latest, 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(&walk, &view, start, stop, count, last_offset_delta)
        with nogil:
            reason = find_all(&walk, base_timestamp, &faults)
        if reason != FINE:
            raise refusal(&walk, reason)
        return [faults.places[place] for place in range(faults.count)]
    finally:
        PyBuffer_Release(&view)


def drop_deltas(
    data,
    Py_ssize_t start,
    Py_ssize_t stop,
    int64_t count,
    int64_t last_offset_delta,
    list dropped,
):
    """The records whose deltas are not in the ascending list `dropped`, verbatim, and how many they are."""
    cdef Py_buffer view
    cdef Walk walk
    cdef RecordView record
    cdef Packed kept = Packed(NULL, 0, 0)
    cdef int64_t kept_count = 0
    cdef Py_ssize_t index = 0
    cdef Reason reason
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(&walk, &view, start, stop, count, last_offset_delta)
        while walk.done < walk.count:
            reason = next_record(&walk, &record)
            if reason != FINE:
                raise refusal(&walk, reason)
            if listed(dropped, &index, record.offset_delta):
                continue
            if not reserve(&kept, walk.cursor.at - record.start):
                raise MemoryError()
            memcpy(kept.data + kept.used, record.start, walk.cursor.at - record.start)
            kept.used += walk.cursor.at - record.start
            kept_count += 1
        reason = ended(&walk)
        if reason != FINE:
            raise refusal(&walk, reason)
        return packed_bytes(&kept), kept_count
    finally:
        free(kept.data)
        PyBuffer_Release(&view)


cdef inline bint listed(list deltas, Py_ssize_t *index, int64_t delta) except -1:
    # Both sides ascend, so one pass over the list serves all records.
    while index[0] < len(deltas) and PyLong_AsLongLong(deltas[index[0]]) < delta:
        index[0] += 1
    return index[0] < len(deltas) and PyLong_AsLongLong(deltas[index[0]]) == delta
