# Avro's binary encoding into the fields of a schema.

cdef Verdict avro_value(Typed typed, Cursor *cursor, int index) noexcept nogil:
    cdef Node *node = &typed.nodes[index]
    cdef int64_t branch
    if node.null_branch >= 0:
        if take_varlong(cursor, &branch) != FINE or branch < 0 or branch > 1:
            return UNPARSED
        if branch == node.null_branch:
            return PARSED
    if node.kind == K_RECORD:
        return avro_record(typed, cursor, index)
    if node.kind <= K_DOUBLE:
        return avro_number(typed, cursor, node)
    if node.kind == K_STRING or node.kind == K_BYTES or node.kind == K_FIXED:
        return avro_bytes(typed, cursor, node)
    if node.kind == K_ENUM:
        return avro_enum(typed, cursor, node)
    if node.kind == K_ARRAY or node.kind == K_MAP:
        return avro_blocks(typed, cursor, node)
    if node.kind == K_UNION:
        if take_varlong(cursor, &branch) != FINE or not 0 <= branch < node.child_count:
            return UNPARSED
        return avro_value(typed, cursor, node.first_child + <int>branch)
    return PARSED  # a null has no bytes


cdef Verdict avro_record(Typed typed, Cursor *cursor, int index) noexcept nogil:
    cdef Node *node = &typed.nodes[index]
    cdef Verdict verdict
    cdef int i
    if node.visible:
        typed._mark(node)
    for i in range(node.first_child, node.first_child + node.child_count):
        verdict = avro_value(typed, cursor, i)
        if verdict != PARSED:
            return verdict
    return PARSED


cdef Verdict avro_number(Typed typed, Cursor *cursor, Node *node) noexcept nogil:
    cdef int64_t whole
    cdef int32_t narrow
    cdef float single
    cdef double real
    if node.kind == K_INT:
        if take_varint(cursor, &narrow) != FINE:
            return UNPARSED
        if node.visible:
            typed._set_whole(node, narrow)
        return PARSED
    if node.kind == K_LONG:
        if take_varlong(cursor, &whole) != FINE:
            return UNPARSED
        if node.visible:
            typed._set_whole(node, whole)
        return PARSED
    cdef int size = 1 if node.kind == K_BOOL else width_of(node.kind)
    if cursor.end - cursor.at < size:
        return UNPARSED
    cursor.at += size
    if node.kind == K_BOOL:
        if (cursor.at - 1)[0] > 1:
            return UNPARSED
        if node.visible:
            typed._set_bool(node, (cursor.at - 1)[0])
    elif node.visible and node.kind == K_FLOAT:
        memcpy(&single, cursor.at - 4, 4)
        typed._set_real(node, single)
    elif node.visible:
        memcpy(&real, cursor.at - 8, 8)
        typed._set_real(node, real)
    return PARSED


cdef Verdict avro_bytes(Typed typed, Cursor *cursor, Node *node) noexcept nogil:
    cdef int64_t size = node.most
    if node.kind != K_FIXED and take_varlong(cursor, &size) != FINE:
        return UNPARSED
    if size < 0 or size > cursor.end - cursor.at:
        return UNPARSED
    cursor.at += size
    if not node.visible:
        return PARSED
    if node.kind == K_STRING and not is_utf8(cursor.at - size, cursor.at):
        typed.misfit = True
        return PARSED
    return typed._set_bytes(node, cursor.at - size, size)


cdef Verdict avro_enum(Typed typed, Cursor *cursor, Node *node) noexcept nogil:
    cdef int32_t symbol
    if take_varint(cursor, &symbol) != FINE or not 0 <= symbol < node.child_count:
        return UNPARSED
    if not node.visible:
        return PARSED
    cdef Node *named = &typed.nodes[node.first_child + symbol]
    return typed._set_bytes(node, named.name, named.name_size)


cdef Verdict avro_blocks(Typed typed, Cursor *cursor, Node *node) noexcept nogil:
    # Items, or pairs of a string and an item, in blocks; a count of zero ends them.
    cdef const uint8_t *before
    cdef int64_t count, size, i
    cdef Verdict verdict
    while True:
        if take_varlong(cursor, &count) != FINE:
            return UNPARSED
        if count == 0:
            return PARSED
        if count < 0:  # its bytes are counted too: it can be hopped over
            if take_varlong(cursor, &size) != FINE or not 0 <= size <= cursor.end - cursor.at:
                return UNPARSED
            cursor.at += size
            continue
        for i in range(count):
            before = cursor.at
            if node.kind == K_MAP:
                if take_varlong(cursor, &size) != FINE or not 0 <= size <= cursor.end - cursor.at:
                    return UNPARSED
                cursor.at += size
            verdict = avro_value(typed, cursor, node.first_child)
            if verdict != PARSED:
                return verdict
            if cursor.at == before:
                break  # items without bytes: however many are claimed, there is nothing to read
