# Values into columns of a declared schema: the tree of fields, and where each keeps what it found.

from libc.stdlib cimport calloc

cdef enum:
    # Kinds of a field. Those from HIDDEN on have no column: they are only read over.
    K_BOOL = 0
    K_INT
    K_LONG
    K_FLOAT
    K_DOUBLE
    K_STRING
    K_BYTES
    K_FIXED
    K_ENUM
    K_TEXT
    K_RECORD
    HIDDEN
    K_NULL = HIDDEN
    K_ARRAY
    K_MAP
    K_UNION
    K_SYMBOL

KINDS = {
    "bool": K_BOOL, "int": K_INT, "long": K_LONG, "float": K_FLOAT, "double": K_DOUBLE,
    "string": K_STRING, "bytes": K_BYTES, "fixed": K_FIXED, "enum": K_ENUM, "text": K_TEXT,
    "record": K_RECORD, "null": K_NULL, "array": K_ARRAY, "map": K_MAP, "union": K_UNION,
    "symbol": K_SYMBOL,
}

cdef enum Verdict:
    PARSED = 0
    UNPARSED
    OUT_OF_MEMORY


cdef struct Node:
    int kind
    bint visible
    int null_branch  # of a union with null: 0 or 1; -1: no union
    int first_child
    int child_count
    int64_t least
    int64_t most  # of a number; for a fixed: its size
    const uint8_t *name
    Py_ssize_t name_size
    Room valid
    Room data
    Room at


cdef inline bint is_bytes_kind(int kind) noexcept nogil:
    return K_STRING <= kind <= K_TEXT


cdef inline int width_of(int kind) noexcept nogil:
    if kind == K_INT or kind == K_FLOAT:
        return 4
    return 8 if kind == K_LONG or kind == K_DOUBLE else 0


cdef class Typed:
    """Fields of values, column by column. Node 0 is the record that a value as a whole is.

    A node is (kind, name, first child, child count, null branch, least, most, visible).
    """

    cdef Node *nodes
    cdef int count
    cdef int64_t row_count
    cdef bint misfit
    cdef Room scratch
    cdef list names

    def __cinit__(self, list specs not None):
        cdef int i
        self.nodes = <Node *>calloc(max(len(specs), 1), sizeof(Node))
        if self.nodes is NULL:
            raise MemoryError()
        self.count = len(specs)
        self.names = [spec[1] for spec in specs]
        for i in range(self.count):
            kind, name, first, children, null_branch, least, most, visible = specs[i]
            assert 0 <= first and first + children <= self.count and i < first or not children
            self.nodes[i].kind = kind
            self.nodes[i].name = <const uint8_t *>PyBytes_AS_STRING(self.names[i])
            self.nodes[i].name_size = len(self.names[i])
            self.nodes[i].first_child = first
            self.nodes[i].child_count = children
            self.nodes[i].null_branch = null_branch
            self.nodes[i].least = least
            self.nodes[i].most = most
            self.nodes[i].visible = visible

    def __dealloc__(self):
        cdef int i
        if self.nodes is not NULL:
            for i in range(self.count):
                free(self.nodes[i].valid.data)
                free(self.nodes[i].data.data)
                free(self.nodes[i].at.data)
        free(self.nodes)
        free(self.scratch.data)

    def parse(self, int64_t rows, at, data, valid, bint avro, Py_ssize_t prefix):
        """All values of a binary array. How many did not parse, and how many did not fit."""
        cdef Py_buffer places, content, bits
        cdef int64_t unparsed = 0, misfits = 0
        cdef bint fine
        self._begin(rows)
        PyObject_GetBuffer(at, &places, PyBUF_SIMPLE)
        PyObject_GetBuffer(data, &content, PyBUF_SIMPLE)
        PyObject_GetBuffer(b"" if valid is None else valid, &bits, PyBUF_SIMPLE)
        try:
            assert places.len >= 4 * (rows + 1) and (valid is None or bits.len >= (rows + 7) >> 3)
            assert 0 <= (<const int32_t *>places.buf)[rows] <= content.len
            with nogil:
                fine = self._parse_all(
                    rows, <const int32_t *>places.buf, <const uint8_t *>content.buf,
                    <const uint8_t *>bits.buf if bits.len else NULL, avro, prefix,
                    &unparsed, &misfits,
                )
            if not fine:
                raise MemoryError()
        finally:
            PyBuffer_Release(&places)
            PyBuffer_Release(&content)
            PyBuffer_Release(&bits)
        return unparsed, misfits

    def take(self):
        """(valid, data, places) of every node; None where it has none."""
        cdef int i
        cdef list taken = []
        for i in range(self.count):
            if not self.nodes[i].visible:
                taken.append(None)
                continue
            data = None if self.nodes[i].kind == K_RECORD else lend(&self.nodes[i].data)
            places = lend(&self.nodes[i].at) if is_bytes_kind(self.nodes[i].kind) else None
            taken.append((lend(&self.nodes[i].valid), data, places))
        return taken

    cdef int _begin(self, int64_t rows) except -1:
        # All null: a field that is found says so.
        cdef Node *node
        cdef int i
        cdef Py_ssize_t bits = (rows + 7) >> 3
        for i in range(self.count):
            node = &self.nodes[i]
            node.valid.used = node.data.used = node.at.used = 0
            if not node.visible:
                continue
            if not grow(&node.valid, bits):
                raise MemoryError()
            memset(node.valid.data, 0, bits)
            node.valid.used = bits
            fixed = bits if node.kind == K_BOOL else width_of(node.kind) * rows
            if fixed:
                if not grow(&node.data, fixed):
                    raise MemoryError()
                memset(node.data.data, 0, fixed)
                node.data.used = fixed
            if is_bytes_kind(node.kind):
                if not grow(&node.at, 4 * (rows + 1)):
                    raise MemoryError()
                push_i32(&node.at, 0)
        return 0

    cdef bint _parse_all(
        self, int64_t rows, const int32_t *at, const uint8_t *data, const uint8_t *bits,
        bint avro, Py_ssize_t prefix, int64_t *unparsed, int64_t *misfits,
    ) noexcept nogil:
        cdef Cursor cursor
        cdef Verdict verdict
        cdef int64_t row
        for row in range(rows):
            self.row_count = row
            if bits is NULL or (bits[row >> 3] >> (row & 7)) & 1:
                cursor.at, cursor.end = data + at[row], data + at[row + 1]
                self.misfit = False
                verdict = self._parse_one(&cursor, avro, prefix)
                if verdict == OUT_OF_MEMORY:
                    return False
                if verdict == UNPARSED:
                    self._clear(0)
                    unparsed[0] += 1
                else:
                    misfits[0] += self.misfit
            self._end_row()
        return True

    cdef Verdict _parse_one(self, Cursor *cursor, bint avro, Py_ssize_t prefix) noexcept nogil:
        cdef Verdict verdict
        if cursor.end - cursor.at < prefix:
            return UNPARSED
        cursor.at += prefix
        if avro:
            verdict = avro_value(self, cursor, 0)
        else:
            verdict = json_document(self, cursor)
        return UNPARSED if verdict == PARSED and cursor.at != cursor.end else verdict

    cdef void _end_row(self) noexcept nogil:
        cdef int i
        for i in range(self.count):
            if self.nodes[i].visible and is_bytes_kind(self.nodes[i].kind):
                push_i32(&self.nodes[i].at, <int32_t>self.nodes[i].data.used)

    # -- one field of the present row --------------------------------------------------------------

    cdef void _clear(self, int index) noexcept nogil:
        # Null, with all that is below it: another value may follow, or none.
        cdef Node *node = &self.nodes[index]
        cdef int i
        if not node.visible:
            return
        node.valid.data[self.row_count >> 3] &= <uint8_t>~(1 << (self.row_count & 7))
        if is_bytes_kind(node.kind):
            node.data.used = (<int32_t *>node.at.data)[self.row_count]
        elif node.kind == K_RECORD:
            for i in range(node.first_child, node.first_child + node.child_count):
                self._clear(i)

    cdef inline void _mark(self, Node *node) noexcept nogil:
        node.valid.data[self.row_count >> 3] |= <uint8_t>(1 << (self.row_count & 7))

    cdef void _set_bool(self, Node *node, bint value) noexcept nogil:
        cdef uint8_t bit = <uint8_t>(1 << (self.row_count & 7))
        if value:
            node.data.data[self.row_count >> 3] |= bit
        else:
            node.data.data[self.row_count >> 3] &= <uint8_t>~bit
        self._mark(node)

    cdef void _set_whole(self, Node *node, int64_t value) noexcept nogil:
        if value < node.least or value > node.most:
            self.misfit = True
            return
        if node.kind == K_INT:
            (<int32_t *>node.data.data)[self.row_count] = <int32_t>value
        else:
            (<int64_t *>node.data.data)[self.row_count] = value
        self._mark(node)

    cdef void _set_real(self, Node *node, double value) noexcept nogil:
        cdef float narrow
        if node.kind == K_DOUBLE:
            (<double *>node.data.data)[self.row_count] = value
        else:
            narrow = <float>value
            if is_infinite(narrow) and not is_infinite(value):
                self.misfit = True
                return
            (<float *>node.data.data)[self.row_count] = narrow
        self._mark(node)

    cdef Verdict _set_bytes(self, Node *node, const uint8_t *data, Py_ssize_t size) noexcept nogil:
        if size > INT32_MAX - node.data.used:
            return OUT_OF_MEMORY
        if size and not push_bytes(&node.data, data, size):
            return OUT_OF_MEMORY
        self._mark(node)
        return PARSED


cdef extern from "math.h" nogil:
    bint is_infinite "isinf"(double value)


cdef bint is_utf8(const uint8_t *at, const uint8_t *end) noexcept nogil:
    cdef uint8_t lead, low, high
    cdef int more
    while at < end:
        lead = at[0]
        at += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F  # no surrogates
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        if end - at < more or not low <= at[0] <= high:
            return False
        for _ in range(1, more):
            at += 1
            if at[0] & 0xC0 != 0x80:
                return False
        at += 1
    return True
