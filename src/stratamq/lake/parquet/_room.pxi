# Memory that grows while a column is filled, and is then lent to Arrow without a copy.

cdef struct Room:
    uint8_t *data
    Py_ssize_t used
    Py_ssize_t size


cdef inline bint grow(Room *room, Py_ssize_t more) noexcept nogil:
    # Whether there is room for so many bytes more.
    cdef Py_ssize_t size
    cdef void *moved
    if room.size - room.used >= more:
        return True
    size = room.used + more
    if size < 2 * room.size:
        size = 2 * room.size
    if size < 1024:
        size = 1024
    moved = realloc(room.data, size)
    if moved is NULL:
        return False
    room.data = <uint8_t *>moved
    room.size = size
    return True


cdef inline void push_i64(Room *room, int64_t value) noexcept nogil:
    (<int64_t *>(room.data + room.used))[0] = value
    room.used += 8


cdef inline void push_i32(Room *room, int32_t value) noexcept nogil:
    (<int32_t *>(room.data + room.used))[0] = value
    room.used += 4


cdef inline void push_bit(Room *room, int64_t index, bint value) noexcept nogil:
    # Room for it was made; bit 0 opens a new byte.
    if not index & 7:
        room.data[room.used] = 0
        room.used += 1
    room.data[index >> 3] |= <uint8_t>(value << (index & 7))


cdef inline bint push_bytes(Room *room, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    if not grow(room, size):
        return False
    memcpy(room.data + room.used, data, size)
    room.used += size
    return True


cdef class Lent:
    """Filled memory, owned by whoever holds this."""

    cdef Room room

    def __dealloc__(self):
        free(self.room.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.room.data, self.room.used, True, flags)

    def __len__(self):
        return self.room.used


cdef Lent lend(Room *room):
    # The memory goes with what is given back; the room is empty and may be filled anew.
    cdef Lent lent = Lent.__new__(Lent)
    if room.data is NULL and not grow(room, 1):
        raise MemoryError()
    lent.room = room[0]
    memset(room, 0, sizeof(Room))
    return lent
