# JSON's bytes and strings: found, checked, and put into UTF-8.

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


cdef struct Text:
    const uint8_t *start
    Py_ssize_t size
    bint escaped


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
