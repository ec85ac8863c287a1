# JSON's numbers: checked, and read to the last bit.

from cpython.object cimport PyObject

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0

cdef double[23] TENS
for _power in range(23):
    TENS[_power] = 10.0 ** _power


cdef struct Number:
    const uint8_t *start
    Py_ssize_t size
    bint negative
    bint whole
    bint exact  # mantissa and exponent say all
    uint64_t mantissa
    int64_t exponent


cdef inline bint is_digit(Cursor *json) noexcept nogil:
    return json.at < json.end and 0x30 <= json.at[0] <= 0x39


cdef bint take_digits(Cursor *json, Number *number, bint fraction) noexcept nogil:
    if not is_digit(json):
        return False
    while is_digit(json):
        if number.mantissa < 900000000000000000ULL:
            number.mantissa = number.mantissa * 10 + (json.at[0] - 0x30)
            number.exponent -= fraction
        else:
            number.exact = False
        json.at += 1
    return True


cdef bint take_exponent(Cursor *json, Number *number) noexcept nogil:
    cdef bint negative
    cdef int64_t value = 0
    number.whole = False
    json.at += 1
    negative = json.at < json.end and json.at[0] == c"-"
    if negative or (json.at < json.end and json.at[0] == c"+"):
        json.at += 1
    if not is_digit(json):
        return False
    while is_digit(json):
        if value < 1000000:
            value = value * 10 + (json.at[0] - 0x30)
        json.at += 1
    number.exponent += -value if negative else value
    return True


cdef bint take_number(Cursor *json, Number *number) noexcept nogil:
    number.start = json.at
    number.mantissa = number.exponent = 0
    number.whole = number.exact = True
    number.negative = take_byte(json, c"-")
    if json.at < json.end and json.at[0] == c"0":
        json.at += 1
    elif not take_digits(json, number, False):
        return False
    if json.at < json.end and json.at[0] == c".":
        json.at += 1
        number.whole = False
        if not take_digits(json, number, True):
            return False
    if json.at < json.end and json.at[0] | 0x20 == c"e":
        if not take_exponent(json, number):
            return False
    number.size = json.at - number.start
    return True


cdef bint whole_of(Number *number, int64_t *value) noexcept nogil:
    cdef Cursor json = Cursor(number.start, number.start + number.size)
    cdef int64_t found = 0
    if not number.whole:
        return False
    if number.exact:
        value[0] = -<int64_t>number.mantissa if number.negative else <int64_t>number.mantissa
        return True
    json.at += number.negative
    while json.at < json.end:
        if mul_overflows(found, 10, &found):
            return False
        if number.negative:
            if sub_overflows(found, json.at[0] - 0x30, &found):
                return False
        elif add_overflows(found, json.at[0] - 0x30, &found):
            return False
        json.at += 1
    value[0] = found
    return True


cdef bint real_of(Number *number, double *value) noexcept nogil:
    # Exact when both parts are: one correctly rounded operation. Else the library's careful way.
    cdef double found
    cdef bint small = number.exact and number.mantissa <= 1ULL << 53
    if small and -22 <= number.exponent <= 22:
        found = <double>number.mantissa
        found = found / TENS[-number.exponent] if number.exponent < 0 else (
            found * TENS[number.exponent]
        )
        value[0] = -found if number.negative else found
        return True
    with gil:
        return slow_real(number, value)


cdef bint slow_real(Number *number, double *value) noexcept:
    cdef bytes text = number.start[: number.size]
    try:
        value[0] = PyOS_string_to_double(text, NULL, NULL)
    except ValueError:
        return False
    return not is_infinite(value[0])
