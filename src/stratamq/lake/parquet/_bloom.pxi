# Parquet's split block bloom filter, as its specification has it: XXH64 with seed 0, blocks of 32 bytes.

cdef uint64_t P1 = 0x9E3779B185EBCA87ULL, P2 = 0xC2B2AE3D27D4EB4FULL, P3 = 0x165667B19E3779F9ULL
cdef uint64_t P4 = 0x85EBCA77C2B2AE63ULL, P5 = 0x27D4EB2F165667C5ULL
cdef uint32_t[8] SALTS
SALTS[:] = [
    0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
]


cdef inline uint64_t turned(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t mixed(uint64_t lane, uint64_t value) noexcept nogil:
    return turned(lane + value * P2, 31) * P1


cdef inline uint64_t eight_at(const uint8_t *at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef uint64_t long_start(const uint8_t **at, Py_ssize_t *left) noexcept nogil:
    # The stripes of 32 bytes.
    cdef uint64_t[4] lanes
    cdef uint64_t found
    cdef int i
    lanes[0], lanes[1], lanes[2], lanes[3] = P1 + P2, P2, 0, 0 - P1
    while left[0] >= 32:
        for i in range(4):
            lanes[i] = mixed(lanes[i], eight_at(at[0] + 8 * i))
        at[0] += 32
        left[0] -= 32
    found = turned(lanes[0], 1) + turned(lanes[1], 7) + turned(lanes[2], 12) + turned(lanes[3], 18)
    for i in range(4):
        found = (found ^ mixed(0, lanes[i])) * P1 + P4
    return found


cdef uint64_t xxh64(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t left = size
    cdef uint32_t four
    cdef uint64_t found = long_start(&at, &left) if size >= 32 else P5
    found += <uint64_t>size
    while left >= 8:
        found = turned(found ^ mixed(0, eight_at(at)), 27) * P1 + P4
        at += 8
        left -= 8
    if left >= 4:
        memcpy(&four, at, 4)
        found = turned(found ^ four * P1, 23) * P2 + P3
        at += 4
        left -= 4
    while left:
        found = turned(found ^ at[0] * P5, 11) * P1
        at += 1
        left -= 1
    found = (found ^ (found >> 33)) * P2
    found = (found ^ (found >> 29)) * P3
    return found ^ (found >> 32)


def hash_of(bytes value not None):
    """XXH64 of the bytes, seed 0."""
    return xxh64(<const uint8_t *>PyBytes_AS_STRING(value), len(value))


def filter_may_hold(bitset, bytes value not None):
    """Whether the filter leaves it open that the value is there."""
    cdef Py_buffer view
    cdef uint64_t hashed = xxh64(<const uint8_t *>PyBytes_AS_STRING(value), len(value))
    cdef uint64_t block
    cdef uint32_t word, key = <uint32_t>hashed
    cdef bint found = True
    cdef int i
    PyObject_GetBuffer(bitset, &view, PyBUF_SIMPLE)
    try:
        if view.len < 32:
            return True
        block = ((hashed >> 32) * <uint64_t>(view.len // 32)) >> 32
        for i in range(8):
            memcpy(&word, <const uint8_t *>view.buf + 32 * block + 4 * i, 4)
            found = found and (word >> ((key * SALTS[i]) >> 27)) & 1
        return found
    finally:
        PyBuffer_Release(&view)
