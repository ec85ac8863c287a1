# JSON values (RFC 8259) into the fields of a schema, strictly: what is skipped is checked all the same.

from cpython.object cimport PyObject

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0

cdef enum:
    DEPTH_MAX = 200

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


cdef struct Text:
    const uint8_t *start
    Py_ssize_t size
    bint escaped


cdef inline void skip_space(Cursor *json) noexcept nogil:
    while json.at < json.end and json.at[0] <= 0x20:
        if json.at[0] != 0x20 and json.at[0] != 0x0A and json.at[0] != 0x0D and json.at[0] != 0x09:
            return
        json.at += 1


cdef inline bint take_byte(Cursor *json, uint8_t byte) noexcept nogil:
    if json.at < json.end and json.at[0] == byte:
        json.at += 1
        return True
    return False


cdef bint take_word(Cursor *json, const char *word, Py_ssize_t size) noexcept nogil:
    if json.end - json.at < size or memcmp(json.at, word, size) != 0:
        return False
    json.at += size
    return True


# -- strings -----------------------------------------------------------------------------------------

cdef inline int hex_digit(uint8_t byte) noexcept nogil:
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    byte |= 0x20
    return byte - 0x61 + 10 if 0x61 <= byte <= 0x66 else -1


cdef int take_hex(const uint8_t *at) noexcept nogil:
    cdef int value = 0, digit, i
    for i in range(4):
        digit = hex_digit(at[i])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


cdef bint take_escape(Cursor *json) noexcept nogil:
    # Behind the backslash.
    if json.at >= json.end:
        return False
    cdef uint8_t byte = json.at[0]
    json.at += 1
    if byte == c"u":
        if json.end - json.at < 4 or take_hex(json.at) < 0:
            return False
        json.at += 4
        return True
    return byte in (c'"', c"\\", c"/", c"b", c"f", c"n", c"r", c"t")


cdef bint take_text(Cursor *json, Text *text) noexcept nogil:
    # Behind the opening quote.
    cdef uint8_t seen = 0, byte
    cdef uint64_t eight
    text.start = json.at
    text.escaped = False
    while json.at < json.end:
        # Eight bytes at once, as long as none of them is special.
        while json.end - json.at >= 8:
            memcpy(&eight, json.at, 8)
            if has_special(eight):
                break
            seen |= 0x80 if eight & 0x8080808080808080ULL else 0
            json.at += 8
        if json.at >= json.end:
            return False
        byte = json.at[0]
        json.at += 1
        if byte == c'"':
            text.size = json.at - 1 - text.start
            return not seen & 0x80 or is_utf8(text.start, text.start + text.size)
        if byte == c"\\":
            text.escaped = True
            if not take_escape(json):
                return False
        elif byte < 0x20:
            return False
        seen |= byte
    return False


cdef inline bint has_special(uint64_t eight) noexcept nogil:
    # A quote, a backslash or a control character among these bytes. (Never missed; a byte behind a
    # real one may be taken for one too, and is then looked at by itself.)
    cdef uint64_t ones = 0x0101010101010101ULL, tops = 0x8080808080808080ULL
    cdef uint64_t quote = eight ^ (ones * 0x22), slash = eight ^ (ones * 0x5C)
    cdef uint64_t found = (quote - ones) & ~quote
    found |= (slash - ones) & ~slash
    found |= (eight - ones * 0x20) & ~eight
    return (found & tops) != 0


cdef Py_ssize_t put_utf8(uint8_t *out, int code) noexcept nogil:
    if code < 0x80:
        out[0] = <uint8_t>code
        return 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | code >> 6)
        out[1] = <uint8_t>(0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = <uint8_t>(0xE0 | code >> 12)
        out[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
        out[2] = <uint8_t>(0x80 | code & 0x3F)
        return 3
    out[0] = <uint8_t>(0xF0 | code >> 18)
    out[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
    out[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
    out[3] = <uint8_t>(0x80 | code & 0x3F)
    return 4


cdef int take_code(Cursor *json) noexcept nogil:
    # The character of a checked escape, behind its `u`; -1: half of one.
    cdef int code = take_hex(json.at), low
    json.at += 4
    if not 0xD800 <= code <= 0xDFFF:
        return code
    if code >= 0xDC00 or json.end - json.at < 6 or json.at[0] != c"\\" or json.at[1] != c"u":
        return -1
    low = take_hex(json.at + 2)
    if not 0xDC00 <= low <= 0xDFFF:
        return -1
    json.at += 6
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)


cdef inline uint8_t plain_escape(uint8_t byte) noexcept nogil:
    if byte == c"b":
        return 8
    if byte == c"f":
        return 12
    if byte == c"n":
        return 10
    if byte == c"r":
        return 13
    return 9 if byte == c"t" else byte


cdef Py_ssize_t unescape(Text *text, uint8_t *out) noexcept nogil:
    # Never longer than the text. -1: half of a surrogate pair, which UTF-8 cannot say.
    cdef Cursor json = Cursor(text.start, text.start + text.size)
    cdef uint8_t *start = out
    cdef int code
    while json.at < json.end:
        if json.at[0] != c"\\":
            out[0] = json.at[0]
            json.at += 1
            out += 1
            continue
        json.at += 2
        if (json.at - 1)[0] != c"u":
            out[0] = plain_escape((json.at - 1)[0])
            out += 1
            continue
        code = take_code(&json)
        if code < 0:
            return -1
        out += put_utf8(out, code)
    return out - start


# -- numbers -----------------------------------------------------------------------------------------

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


# -- values ------------------------------------------------------------------------------------------

cdef Verdict json_document(Typed typed, Cursor *json) noexcept nogil:
    cdef Verdict verdict
    skip_space(json)
    if json.at >= json.end or json.at[0] != c"{":
        return UNPARSED
    json.at += 1
    typed._mark(&typed.nodes[0])
    verdict = json_object(typed, json, 0, 0)
    skip_space(json)
    return verdict


cdef Verdict json_object(Typed typed, Cursor *json, int index, int depth) noexcept nogil:
    # Behind the brace. `index` -1: nobody wants it.
    cdef Text name
    cdef int child, expected = 0
    cdef Verdict verdict
    if depth > DEPTH_MAX:
        return UNPARSED
    skip_space(json)
    if take_byte(json, c"}"):
        return PARSED
    while True:
        skip_space(json)
        if not take_byte(json, c'"') or not take_text(json, &name):
            return UNPARSED
        skip_space(json)
        if not take_byte(json, c":"):
            return UNPARSED
        child = -1 if index < 0 else child_named(typed, index, &name, &expected)
        if child == -2:
            return OUT_OF_MEMORY
        verdict = json_value(typed, json, child, depth + 1)
        if verdict != PARSED:
            return verdict
        skip_space(json)
        if take_byte(json, c"}"):
            return PARSED
        if not take_byte(json, c","):
            return UNPARSED


cdef int child_named(Typed typed, int index, Text *name, int *expected) noexcept nogil:
    # Fields mostly come in the schema's order: the one behind the last is looked at first.
    cdef Node *node = &typed.nodes[index]
    cdef const uint8_t *data = name.start
    cdef Py_ssize_t size = name.size
    cdef Node *child
    cdef int i, at
    if name.escaped:
        typed.scratch.used = 0
        if not grow(&typed.scratch, size):
            return -2
        size = unescape(name, typed.scratch.data)
        data = typed.scratch.data
    for i in range(node.child_count):
        at = expected[0] + i
        if at >= node.child_count:
            at -= node.child_count
        child = &typed.nodes[node.first_child + at]
        if child.name_size == size and memcmp(child.name, data, size) == 0:
            expected[0] = at + 1 if at + 1 < node.child_count else 0
            return node.first_child + at
    return -1


cdef Verdict json_array(Typed typed, Cursor *json, int depth) noexcept nogil:
    # Behind the bracket. No column is made of its items.
    cdef Verdict verdict
    if depth > DEPTH_MAX:
        return UNPARSED
    skip_space(json)
    if take_byte(json, c"]"):
        return PARSED
    while True:
        verdict = json_value(typed, json, -1, depth + 1)
        if verdict != PARSED:
            return verdict
        skip_space(json)
        if take_byte(json, c"]"):
            return PARSED
        if not take_byte(json, c","):
            return UNPARSED


cdef Verdict json_value(Typed typed, Cursor *json, int index, int depth) noexcept nogil:
    cdef Node *node = NULL
    cdef const uint8_t *start
    cdef Verdict verdict
    skip_space(json)
    if json.at >= json.end:
        return UNPARSED
    if index >= 0:
        typed._clear(index)
        node = &typed.nodes[index]
        if node.kind == K_TEXT and json.at[0] != c"n":
            start = json.at
            verdict = json_value(typed, json, -1, depth)
            if verdict != PARSED:
                return verdict
            return typed._set_bytes(node, start, json.at - start)
    cdef uint8_t byte = json.at[0]
    if byte == c'"':
        json.at += 1
        return json_text(typed, json, node)
    if byte == c"{":
        json.at += 1
        if node is not NULL and node.kind != K_RECORD:
            typed.misfit = True
            index = -1
        elif node is not NULL:
            typed._mark(node)
        return json_object(typed, json, index, depth)
    if byte == c"[":
        json.at += 1
        typed.misfit |= node is not NULL
        return json_array(typed, json, depth)
    return json_scalar(typed, json, node)


cdef Verdict json_text(Typed typed, Cursor *json, Node *node) noexcept nogil:
    cdef Text text
    cdef Py_ssize_t size
    if not take_text(json, &text):
        return UNPARSED
    if node is NULL:
        return PARSED
    if not is_bytes_kind(node.kind):
        typed.misfit = True
        return PARSED
    if not text.escaped:
        return typed._set_bytes(node, text.start, text.size)
    if text.size > INT32_MAX - node.data.used or not grow(&node.data, text.size):
        return OUT_OF_MEMORY
    size = unescape(&text, node.data.data + node.data.used)
    if size < 0:
        typed.misfit = True
        return PARSED
    node.data.used += size
    typed._mark(node)
    return PARSED


cdef Verdict json_scalar(Typed typed, Cursor *json, Node *node) noexcept nogil:
    cdef Number number
    cdef bint truth
    if take_word(json, "null", 4):
        return PARSED
    truth = take_word(json, "true", 4)
    if truth or take_word(json, "false", 5):
        if node is not NULL and node.kind == K_BOOL:
            typed._set_bool(node, truth)
        elif node is not NULL:
            typed.misfit = True
        return PARSED
    if not take_number(json, &number):
        return UNPARSED
    if node is not NULL:
        json_number(typed, node, &number)
    return PARSED


cdef void json_number(Typed typed, Node *node, Number *number) noexcept nogil:
    cdef int64_t whole
    cdef double real
    if node.kind == K_INT or node.kind == K_LONG:
        if whole_of(number, &whole):
            typed._set_whole(node, whole)
            return
    elif node.kind == K_FLOAT or node.kind == K_DOUBLE:
        if real_of(number, &real):
            typed._set_real(node, real)
            return
    typed.misfit = True
