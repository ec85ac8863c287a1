# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""LZ4 frames as producers send them, unpacked straight into the caller's room.

The library unpacks through buffers of its own, which for a batch of a few KiB costs ten times as much
as the work. Here is the ordinary case only: one frame, without sums of its blocks or content. The
batch's CRC has been checked before, so what is damaged is damaged on purpose: pointers are compared
with their ends before they move, and whatever is not ordinary is left to the library, which knows
what to say about it.

The rules at the end of a block (matches end 5 bytes before it, literals that do not end it 12) are
those of the reference decoder: what is taken here must be taken by every consumer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    MAGIC_BYTES = 4
    DESCRIPTOR_BYTES = 2
    HEAD_BYTES_MIN = 7
    BLOCK_SIZE_BYTES = 4
    CONTENT_SIZE_BYTES = 8
    LAST_LITERALS = 5
    MATCH_LIMIT = 12
    MATCH_MIN = 4
    OFFSET_BYTES = 2
    STRIDE = 8
    SHORT = 16
    ALONE_MAX = 2 << 20  # bytes; what takes longer lets other threads run meanwhile

    VERSION = 0x40
    VERSION_MASK = 0xC0
    INDEPENDENT = 0x20
    CONTENT_SIZE = 0x08
    UNUSUAL = 0x17  # block sums, content sum, a reserved bit, a dictionary


cdef inline uint32_t le32(const uint8_t *at) noexcept nogil:
    return at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)


cdef inline uint32_t rotl(uint32_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (32 - bits))


cdef uint32_t xxh32_short(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    # xxHash32 with seed 0 of less than 16 bytes.
    cdef uint32_t h = <uint32_t>374761393 + <uint32_t>size
    cdef const uint8_t *end = at + size
    while end - at >= 4:
        h = rotl(h + le32(at) * <uint32_t>3266489917, 17) * <uint32_t>668265263
        at += 4
    while at < end:
        h = rotl(h + at[0] * <uint32_t>374761393, 11) * <uint32_t>2654435761
        at += 1
    h = (h ^ (h >> 15)) * <uint32_t>2246822519
    h = (h ^ (h >> 13)) * <uint32_t>3266489917
    return h ^ (h >> 16)


cdef inline bint long_length(
    const uint8_t **at, const uint8_t *end, Py_ssize_t room, Py_ssize_t *length
) noexcept nogil:
    # The bytes that lengthen a length of 15; more than there is room for is no length.
    cdef uint8_t byte = 255
    while byte == 255:
        if at[0] >= end or length[0] > room:
            return False
        byte = at[0][0]
        at[0] += 1
        length[0] += byte
    return True


cdef inline void copy_match(uint8_t *to, Py_ssize_t distance, Py_ssize_t length, const uint8_t *end) noexcept nogil:
    # The bytes `distance` back, which may reach into those being written.
    cdef const uint8_t *source = to - distance
    cdef uint8_t *stop = to + length
    if distance >= STRIDE and end - stop >= STRIDE:
        memcpy(to, source, STRIDE)
        while stop - to > STRIDE:  # the last stride may write too much, which is written over
            to += STRIDE
            source += STRIDE
            memcpy(to, source, STRIDE)
        return
    while to < stop:
        to[0] = source[0]
        to += 1
        source += 1


cdef Py_ssize_t unpack_block(
    const uint8_t *at, Py_ssize_t size, const uint8_t *first, uint8_t *to, Py_ssize_t room
) noexcept nogil:
    # Bytes written, or -1. `first` is the oldest byte that a match may reach back to.
    cdef const uint8_t *end = at + size
    cdef uint8_t *begin = to
    cdef uint8_t *stop = to + room
    cdef Py_ssize_t length, distance
    cdef uint8_t token
    while True:
        if at >= end:
            return -1
        token = at[0]
        at += 1
        length = token >> 4
        if length == 15 and not long_length(&at, end, stop - to, &length):
            return -1
        if length > stop - to:
            return -1
        if length == end - at:
            memcpy(to, at, length)
            return to + length - begin
        if stop - to - length < MATCH_LIMIT or end - at - length < OFFSET_BYTES + 1 + LAST_LITERALS:
            return -1
        if length <= SHORT and end - at >= SHORT and stop - to >= SHORT:
            memcpy(to, at, SHORT)  # of one size, which needs no call; what is too much is written over
        else:
            memcpy(to, at, length)
        at += length
        to += length
        distance = at[0] | (<Py_ssize_t>at[1] << 8)
        at += OFFSET_BYTES
        if distance == 0 or distance > to - first:
            return -1
        length = token & 15
        if length == 15 and not long_length(&at, end, stop - to, &length):
            return -1
        length += MATCH_MIN
        if length > stop - to - LAST_LITERALS:
            return -1
        copy_match(to, distance, length, stop)
        to += length


cdef Py_ssize_t head_bytes(const uint8_t *at, Py_ssize_t size, Py_ssize_t *block_max, int64_t *content) noexcept nogil:
    # Where the blocks begin; 0 where the frame is not an ordinary one.
    cdef Py_ssize_t head = MAGIC_BYTES + DESCRIPTOR_BYTES
    cdef uint8_t flags, block
    content[0] = -1
    if size < HEAD_BYTES_MIN or le32(at) != 0x184D2204:
        return 0
    flags, block = at[4], at[5]
    if flags & VERSION_MASK != VERSION or flags & UNUSUAL or block & 0x8F or block < 0x40:
        return 0
    block_max[0] = <Py_ssize_t>1 << (8 + 2 * (block >> 4))
    if flags & CONTENT_SIZE:
        head += CONTENT_SIZE_BYTES
        if size <= head or at[13] & 0x80:
            return 0
        content[0] = <int64_t>(le32(at + 6) | (<int64_t>le32(at + 10) << 32))
    if at[head] != (xxh32_short(at + MAGIC_BYTES, head - MAGIC_BYTES) >> 8) & 0xFF:
        return 0
    return head + 1


cdef Py_ssize_t unpack(const uint8_t *data, Py_ssize_t size, uint8_t *out, Py_ssize_t room) noexcept nogil:
    cdef Py_ssize_t block_max = 0, done = 0, took
    cdef int64_t content = 0
    cdef Py_ssize_t at = head_bytes(data, size, &block_max, &content)
    cdef uint32_t packed
    cdef bint linked
    if at == 0:
        return -1
    linked = not data[4] & INDEPENDENT
    while size - at >= BLOCK_SIZE_BYTES:
        packed = le32(data + at)
        at += BLOCK_SIZE_BYTES
        if packed == 0:
            return done if at == size and (content < 0 or content == done) else -1
        took = packed & 0x7FFFFFFF
        if took > size - at or took > block_max:
            return -1
        if packed >> 31:
            if took > room - done:
                return -1
            memcpy(out + done, data + at, took)
            done += took
        else:
            packed = <uint32_t>took
            took = unpack_block(
                data + at, packed, out if linked else out + done, out + done, min(block_max, room - done)
            )
            if took < 0:
                return -1
            done += took
            took = packed
        at += took
    return -1


def unpack_frame(data, out):
    """The bytes written into `out`; None where the library has to look at `data`, be it because it
    is not an ordinary frame, damaged, or larger than `out`. What is in `out` then means nothing."""
    cdef Py_buffer source, target
    cdef Py_ssize_t done
    PyObject_GetBuffer(data, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
        try:
            if target.len <= ALONE_MAX:  # to give the GIL away costs more than that
                done = unpack(<const uint8_t *>source.buf, source.len, <uint8_t *>target.buf, target.len)
            else:
                with nogil:
                    done = unpack(<const uint8_t *>source.buf, source.len, <uint8_t *>target.buf, target.len)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
    return None if done < 0 else done


def unfilled(Py_ssize_t size):
    """Memory to unpack into that nothing was written to yet: to fill it with zeros first would take
    as long as the unpacking."""
    return PyByteArray_FromStringAndSize(NULL, size)
