# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loops over records and over batches that must not run in the interpreter.

Everything here reads bytes that a stranger may have sent. Two rules keep that safe:

1.  A pointer moves only through `take_*`, and each compares with the end before it reads.
2.  What was read is a C value from then on; no length is read twice.

A function that parses returns FINE, or the reason why it could not.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_Check,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.long cimport PyLong_AsLongLong, PyLong_Check
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport (
    PyTuple_Check,
    PyTuple_GET_ITEM,
    PyTuple_GET_SIZE,
    PyTuple_New,
    PyTuple_SET_ITEM,
)
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from stratamq.model.errors import BatchTooLarge, CorruptBatch, InvalidRecord
from stratamq.model.record import TAG_HEADER, Record
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import compression
from stratamq.wire.kafka.records.batch import BatchHeader, BatchScan, BatchSpan

assert Record._fields == ("value", "key", "headers", "tags", "timestamp", "offset"), \
    "records are made and read by position here"
assert BatchSpan._fields == ("position", "size", "base_offset", "last_offset", "max_timestamp"), \
    "spans are made by position here"
assert BatchScan._fields == ("keys", "tags", "max_timestamp", "null_keys"), \
    "scans are made by position here"
assert len(BatchHeader._fields) == 13, "headers are made by position here"
assert sorted(compression.EXPANSION_MAX) == [0, 1, 2, 3, 4], "codecs are counted here"
assert TAG_HEADER == b"tag", "it is written out below as a C constant"

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject *value)
    object PyMemoryView_FromMemory(char *data, Py_ssize_t size, int flags)

cdef extern from *:
    """
    #define strata_add_overflows(a, b, out) __builtin_add_overflow(a, b, out)
    #define strata_sub_overflows(a, b, out) __builtin_sub_overflow(a, b, out)

    static PyObject *strata_new_tuple(PyTypeObject *type, Py_ssize_t size) {
        PyObject *made = PyType_GenericAlloc(type, size);
    #if PY_VERSION_HEX >= 0x030E0000
        if (made != NULL)
            ((PyTupleObject *)made)->ob_hash = -1;  /* from 3.14 on tuples keep their hash: none yet */
    #endif
        return made;
    }
    """
    bint add_overflows "strata_add_overflows"(int64_t a, int64_t b, int64_t *out) nogil
    bint sub_overflows "strata_sub_overflows"(int64_t a, int64_t b, int64_t *out) nogil
    object new_tuple "strata_new_tuple"(PyTypeObject *type, Py_ssize_t size)

cdef enum:
    HEADER_ENTRY_BYTES_MIN = 2
    ENTRY_BYTES = 12

cdef PyTypeObject *RECORD_TYPE = <PyTypeObject *>Record
cdef PyTypeObject *SPAN_TYPE = <PyTypeObject *>BatchSpan
cdef PyTypeObject *SCAN_TYPE = <PyTypeObject *>BatchScan
cdef PyTypeObject *HEADER_TYPE = <PyTypeObject *>BatchHeader

include "_layout.pxi"
include "_parse.pxi"
include "_hop.pxi"
include "_scan.pxi"
include "_decode.pxi"
include "_encode.pxi"
include "_accept.pxi"
