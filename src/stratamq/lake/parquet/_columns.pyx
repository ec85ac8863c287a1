# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Batches to Arrow's buffers and back: the loops over records that the interpreter must not do.

`Columns` takes the records of batches and lays them out as Arrow does; `Rows` takes what Arrow read
from a file and writes records of it; `Typed` parses values into columns of a declared schema. What
is read may be damaged: a pointer moves only after it was held against the end of its bytes. The
plain-Python twins are `oracle.py` and `values_oracle.py` in `tests/lake/parquet`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from stratamq.model.errors import BatchTooLarge, CorruptBatch

cdef extern from *:
    """
    #define strata_add_overflows(a, b, out) __builtin_add_overflow(a, b, out)
    #define strata_sub_overflows(a, b, out) __builtin_sub_overflow(a, b, out)
    #define strata_mul_overflows(a, b, out) __builtin_mul_overflow(a, b, out)
    """
    bint add_overflows "strata_add_overflows"(int64_t a, int64_t b, int64_t *out) nogil
    bint sub_overflows "strata_sub_overflows"(int64_t a, int64_t b, int64_t *out) nogil
    bint mul_overflows "strata_mul_overflows"(int64_t a, int64_t b, int64_t *out) nogil

cdef extern from "endian.h":
    uint32_t htobe32(uint32_t value) nogil

cdef enum:
    HEADER_ENTRY_BYTES_MIN = 2

include "../../wire/kafka/records/_layout.pxi"
include "../../wire/kafka/records/_parse.pxi"
include "_room.pxi"
include "_fill.pxi"
include "_thrift.pxi"
include "_pages.pxi"
include "_entries.pxi"
include "_rows.pxi"
include "_bloom.pxi"
include "_typed.pxi"
include "_json_text.pxi"
include "_json_number.pxi"
include "_json.pxi"
include "_avro.pxi"
