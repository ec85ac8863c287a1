# JSON values (RFC 8259) into the fields of a schema, strictly: what is skipped is checked all the same.

cdef enum:
    DEPTH_MAX = 200


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
