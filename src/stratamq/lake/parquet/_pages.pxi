# A page of values, unpacked: which are null, how long the others are, and their bytes.
# (Parquet: data page v1, levels in RLE, DELTA_LENGTH_BYTE_ARRAY.)

cdef enum:
    NULL_VALUE = -1
    ABSENT = -2
    MINI_WIDTH_MAX = 32


cdef inline int take_levels(Cursor *cursor, int64_t count, int32_t *sizes) noexcept nogil:
    # Nulls are marked as such, the others get 0.
    cdef Cursor levels
    cdef uint64_t head, run
    cdef int64_t done = 0, index
    cdef uint32_t size
    if cursor.end - cursor.at < 4:
        return PAST_END
    memcpy(&size, cursor.at, 4)
    cursor.at += 4
    if size > cursor.end - cursor.at:
        return PAST_END
    levels.at, levels.end = cursor.at, cursor.at + size
    cursor.at += size
    while done < count:
        if take_unsigned(&levels, 32, &head) != FINE:
            return BAD_VARINT
        run = head >> 1
        if head & 1:
            if run > <uint64_t>(levels.end - levels.at):
                return PAST_END
            for index in range(min(<int64_t>run * 8, count - done)):
                sizes[done + index] = ((levels.at[index >> 3] >> (index & 7)) & 1) - 1
            levels.at += run
            done += <int64_t>run * 8
        else:
            if levels.at >= levels.end or not run:
                return PAST_END
            for index in range(min(<int64_t>run, count - done)):
                sizes[done + index] = (levels.at[0] & 1) - 1
            levels.at += 1
            done += <int64_t>run
    return FINE


cdef inline uint64_t bits_at(
    const uint8_t *start, const uint8_t *end, int64_t at, int width
) noexcept nogil:
    # `width` bits from bit `at` on, at most 32.
    cdef uint64_t word = 0
    cdef const uint8_t *byte = start + (at >> 3)
    memcpy(&word, byte, 8 if end - byte >= 8 else end - byte)
    return (word >> (at & 7)) & ((<uint64_t>1 << width) - 1)


cdef int take_lengths(Cursor *cursor, int64_t count, int32_t *sizes) noexcept nogil:
    # The lengths of those that are not null, which are marked with 0.
    cdef uint64_t block, minis, total, raw, mini
    cdef int64_t per, row = 0, least, value, index, left
    cdef const uint8_t *widths
    if take_unsigned(cursor, 32, &block) != FINE or take_unsigned(cursor, 32, &minis) != FINE:
        return BAD_VARINT
    if take_unsigned(cursor, 32, &total) != FINE or take_unsigned(cursor, 64, &raw) != FINE:
        return BAD_VARINT
    if not minis or block % minis or (block // minis) % 8 or not block:
        return BAD_LENGTH
    per, left = <int64_t>(block // minis), <int64_t>total
    value = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    if left and not give_length(sizes, count, &row, value):
        return BAD_LENGTH
    left -= 1
    while left > 0:
        if take_unsigned(cursor, 64, &raw) != FINE:
            return BAD_VARINT
        least = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
        if minis > <uint64_t>(cursor.end - cursor.at):
            return PAST_END
        widths = cursor.at
        cursor.at += minis
        for mini in range(minis):
            if left <= 0:
                break
            if widths[mini] > MINI_WIDTH_MAX or per * widths[mini] // 8 > cursor.end - cursor.at:
                return PAST_END
            for index in range(min(per, left)):
                raw = bits_at(cursor.at, cursor.end, index * widths[mini], widths[mini])
                value = <int64_t>(<uint64_t>value + <uint64_t>least + raw)  # may be anything: no UB
                if not give_length(sizes, count, &row, value):
                    return BAD_LENGTH
            cursor.at += per * widths[mini] // 8
            left -= per
    while row < count:
        if sizes[row] != NULL_VALUE:
            return NO_MORE
        row += 1
    return FINE


cdef inline bint give_length(
    int32_t *sizes, int64_t count, int64_t *row, int64_t value
) noexcept nogil:
    while row[0] < count and sizes[row[0]] == NULL_VALUE:
        row[0] += 1
    if row[0] >= count or value < 0 or value > INT32_MAX:
        return False
    sizes[row[0]] = <int32_t>value
    row[0] += 1
    return True
