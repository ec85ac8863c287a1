# The bytes of a record batch as C constants. `layout.py` owns the numbers; `check_layout` compares.

from stratamq.wire.kafka.records import layout

cdef enum:
    MAGIC = 2
    HEADER_BYTES = 61
    LENGTH_AT = 8
    LENGTH_END = 12
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    CHECKED_AT = 21
    ATTRIBUTES_LOW_AT = 22  # the second byte of the attributes has all bits that are in use
    LAST_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    BATCH_LENGTH_MIN = 49
    RECORD_BYTES_MIN = 7
    CODEC_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    CONTROL_BIT = 0x20


cdef check_layout():
    cdef dict here = {
        "MAGIC": MAGIC,
        "HEADER_BYTES": HEADER_BYTES,
        "LENGTH_AT": LENGTH_AT,
        "LENGTH_END": LENGTH_END,
        "MAGIC_AT": MAGIC_AT,
        "CRC_AT": CRC_AT,
        "CHECKED_AT": CHECKED_AT,
        "LAST_DELTA_AT": LAST_DELTA_AT,
        "BASE_TIMESTAMP_AT": BASE_TIMESTAMP_AT,
        "MAX_TIMESTAMP_AT": MAX_TIMESTAMP_AT,
        "RECORD_COUNT_AT": RECORD_COUNT_AT,
        "BATCH_LENGTH_MIN": BATCH_LENGTH_MIN,
        "RECORD_BYTES_MIN": RECORD_BYTES_MIN,
        "CODEC_MASK": CODEC_MASK,
        "LOG_APPEND_TIME_BIT": LOG_APPEND_TIME_BIT,
        "CONTROL_BIT": CONTROL_BIT,
    }
    for name, number in here.items():
        assert getattr(layout, name) == number, f"{name} of the batch layout is another in C"


check_layout()
