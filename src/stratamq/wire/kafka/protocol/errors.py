"""What may go wrong between bytes and messages, and Kafka's error codes.

ProtocolError                a peer's bytes, or what we would answer, do not fit the protocol
├── MalformedFrame           the size before a frame is negative or too short for a header
├── FrameTooLarge            the size is over the limit; nothing of it was buffered
│   └── AnotherProtocol      it is no size: so begin HTTP, TLS or MQTT
├── MalformedMessage         a header or body that does not follow its schema
├── UnknownApi               an API key that no table of ours has
├── UnsupportedVersion       a known API in a version that is not served
└── UnsendableValue          our own message holds a value that this version cannot carry

All but the last are the peer's doing: close its connection, or, for ApiVersions in a version too
new, answer in version 0. The last one is our bug, found before a byte of it is sent.

`ErrorCode` is what responses carry. Codes, names and the retriable mark are the protocol's; the
words are ours. The broker's table says which of our exceptions becomes which code.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Self

from stratamq.model.errors import InvalidInput
from stratamq.wire.kafka.protocol.schema import Array, fields_of


class ProtocolError(InvalidInput):
    pass


class MalformedFrame(ProtocolError):
    pass


class FrameTooLarge(ProtocolError):
    pass


class AnotherProtocol(FrameTooLarge):
    pass


class MalformedMessage(ProtocolError):
    pass


class UnknownApi(ProtocolError):
    """Carries what every request header begins with, in whatever version it is."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"API key {api_key} (version {api_version}) is not known")
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = correlation_id


class UnsupportedVersion(ProtocolError):
    """As UnknownApi; for ApiVersions the correlation id is needed for the answer."""

    def __init__(self, name: str, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"{name} (API key {api_key}) is not served in version {api_version}")
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = correlation_id


class UnsendableValue(ProtocolError):
    pass


# -- Kafka's codes ---------------------------------------------------------------------------------

RETRY = True
FINAL = False


class ErrorCode(IntEnum):
    """An int on the wire, with `retriable` and `text`."""

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> Self:
        made = int.__new__(cls, code)
        made._value_ = code
        made.retriable, made.text = retriable, text
        return made

    UNKNOWN_SERVER_ERROR = -1, FINAL, "something failed that has no code of its own"
    NONE = 0, FINAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, FINAL, "the log does not hold that offset"
    CORRUPT_MESSAGE = 2, RETRY, "a batch is damaged or does not follow its format"
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRY, "no such topic or partition here"
    INVALID_FETCH_SIZE = 4, FINAL, "that many bytes cannot be fetched"
    LEADER_NOT_AVAILABLE = 5, RETRY, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, RETRY, "another node leads or holds this partition"
    REQUEST_TIMED_OUT = 7, RETRY, "not done in the time given"
    BROKER_NOT_AVAILABLE = 8, FINAL, "that broker cannot be reached"
    REPLICA_NOT_AVAILABLE = 9, RETRY, "that replica cannot be reached"
    MESSAGE_TOO_LARGE = 10, FINAL, "a batch is over the topic's limit"
    STALE_CONTROLLER_EPOCH = 11, FINAL, "another controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "the metadata of a committed offset is too long"
    NETWORK_EXCEPTION = 13, RETRY, "the connection broke before the answer"
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, "the coordinator is still reading its state"
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, RETRY, "another node coordinates this"
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "a topic cannot have that name, or not be used like this"
    RECORD_LIST_TOO_LARGE = 18, FINAL, "a batch is larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, RETRY, "too few replicas in sync; nothing was stored"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRY, "stored, but on too few replicas in sync"
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, FINAL, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, "no protocol in common with the group's members"
    INVALID_GROUP_ID = 24, FINAL, "a group cannot have that id"
    UNKNOWN_MEMBER_ID = 25, FINAL, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, FINAL, "the session time-out is outside the configured range"
    REBALANCE_IN_PROGRESS = 27, FINAL, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "the commit is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, FINAL, "a record's timestamp is outside the accepted range"
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "that SASL mechanism is not offered"
    ILLEGAL_SASL_STATE = 34, FINAL, "not at this point of the authentication"
    UNSUPPORTED_VERSION = 35, FINAL, "the API is not served in that version"
    TOPIC_ALREADY_EXISTS = 36, FINAL, "a topic of that name exists"
    INVALID_PARTITIONS = 37, FINAL, "that number of partitions is not possible"
    INVALID_REPLICATION_FACTOR = 38, FINAL, "that number of replicas is not possible"
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "replicas cannot be placed like that"
    INVALID_CONFIG = 40, FINAL, "a config has an unknown name or a bad value"
    NOT_CONTROLLER = 41, RETRY, "another node is the controller"
    INVALID_REQUEST = 42, FINAL, "the request makes no sense"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, "the stored message format cannot do that"
    POLICY_VIOLATION = 44, FINAL, "a policy of this cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "batches of this producer are missing before this one"
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "the batch is an old one, too old to be answered again"
    INVALID_PRODUCER_EPOCH = 47, FINAL, "a newer instance of this producer has taken over"
    INVALID_TXN_STATE = 48, FINAL, "not in this state of the transaction"
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, "the transactional id has another producer id"
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "the transaction time-out is over the limit"
    CONCURRENT_TRANSACTIONS = 51, RETRY, "the transaction before is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "another coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, FINAL, "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "given up because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, RETRY, "the disk failed"
    LOG_DIR_NOT_FOUND = 57, FINAL, "no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "wrong user or password"
    UNKNOWN_PRODUCER_ID = 59, FINAL, "nothing is known of this producer any more"
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "partitions are being moved"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "delegation tokens are not in use"
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "the token belongs to someone else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, "not on a connection of this kind"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "principals of that type are not known"
    NON_EMPTY_GROUP = 68, FINAL, "the group has members"
    GROUP_ID_NOT_FOUND = 69, FINAL, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, "no such fetch session; start a new one"
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, "the fetch session is at another epoch"
    LISTENER_NOT_FOUND = 72, RETRY, "the leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73, FINAL, "topics may not be deleted here"
    FENCED_LEADER_EPOCH = 74, RETRY, "the client knows an older leader epoch than we do"
    UNKNOWN_LEADER_EPOCH = 75, RETRY, "the client knows a newer leader epoch than we do"
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, "the client's version cannot read this compression"
    STALE_BROKER_EPOCH = 77, FINAL, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, RETRY, "a new leader does not know the high watermark yet"
    MEMBER_ID_REQUIRED = 79, FINAL, "join again with the member id given here"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRY, "the preferred leader cannot lead now"
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "the group is full"
    FENCED_INSTANCE_ID = 82, FINAL, "another member uses this group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRY, "no replica can lead now"
    ELECTION_NOT_NEEDED = 84, RETRY, "the leader is the right one already"
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "nothing is being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "the group is consuming this topic"
    INVALID_RECORD = 87, FINAL, "a record lacks what its topic asks for"
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, "a transaction that commits these offsets is not complete"
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, "over the quota"
    PRODUCER_FENCED = 90, FINAL, "a newer instance of this transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, FINAL, "no such resource"
    DUPLICATE_RESOURCE = 92, FINAL, "a resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "the credential is not good enough"
    INCONSISTENT_VOTER_SET = 94, FINAL, "the sender or receiver is not a voter"
    INVALID_UPDATE_VERSION = 95, FINAL, "that version cannot be updated to"
    FEATURE_UPDATE_FAILED = 96, FINAL, "the feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "a forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, FINAL, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, FINAL, "outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, RETRY, "no topic with that id here"
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "a broker of that id is registered"
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "no broker of that id is registered"
    INCONSISTENT_TOPIC_ID = 103, RETRY, "the log belongs to a topic with another id"
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "this is another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, "a fetch session mixes topic names and ids"
    INELIGIBLE_REPLICA = 107, FINAL, "a replica cannot be in the ISR now"
    NEW_LEADER_ELECTED = 108, FINAL, "done, and a new leader was elected by it"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "the offset is in the cold tier"
    FENCED_MEMBER_EPOCH = 110, FINAL, "the coordinator is past this member epoch; join again"
    UNRELEASED_INSTANCE_ID = 111, FINAL, "a member with this instance id has not left yet"
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "the group has no such assignor"
    STALE_MEMBER_EPOCH = 113, FINAL, "a newer member epoch is on its way; then try again"
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "the request belongs to an endpoint of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "there is no endpoint of that type"
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "no controller has that id"
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "the telemetry subscription is unknown or outdated"
    TELEMETRY_TOO_LARGE = 118, FINAL, "too much telemetry at once"
    INVALID_REGISTRATION = 119, FINAL, "the registration was refused"
    TRANSACTION_ABORTABLE = 120, FINAL, "the transaction failed; abort it to go on"
    INVALID_RECORD_STATE = 121, FINAL, "the record cannot be acknowledged in its state"
    SHARE_SESSION_NOT_FOUND = 122, RETRY, "no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, "the share session is at another epoch"
    FENCED_STATE_EPOCH = 124, FINAL, "the share group's state is at another epoch"
    INVALID_VOTER_KEY = 125, FINAL, "the voter has another key"
    DUPLICATE_VOTER = 126, FINAL, "a voter already"
    VOTER_NOT_FOUND = 127, FINAL, "not a voter"
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "the regular expression cannot be read"
    REBOOTSTRAP_REQUIRED = 129, FINAL, "what the client knows is too old; start again"
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "the topology is not possible"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "the topology's epoch is not possible"
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "a newer topology has taken over"
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, "no more share sessions now"


_BY_CODE = {int(error): error for error in ErrorCode}


def error_of(code: int) -> ErrorCode:
    """The row of a code from the wire; newer codes than ours count as unknown."""
    return _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


# -- the codes in a response -----------------------------------------------------------------------
# A function is generated for each kind of response at its first use: it looks at the fields that
# can hold a code and at no others, since it is called for every answer.

CODE_FIELDS = ("error_code", "partition_error_code")

Finder = Callable[[Any], list[int]]


class ErrorCodeFinders(dict[type, Finder]):
    def __missing__(self, response_type: type) -> Finder:
        made = self[response_type] = _finder(response_type)
        return made


ERROR_CODES = ErrorCodeFinders()
"""By the class of a response: finds all codes that are not NONE, in the order of the wire."""


def _finder(response_type: type) -> Finder:
    body = "".join(f"    {line}\n" for line in _lines(response_type, "response", 0))
    namespace: dict[str, Any] = {}
    exec(f"def find(response):\n    found = []\n{body}    return found\n", namespace)
    made: Finder = namespace["find"]
    return made


def _lines(struct_type: type, name: str, depth: int) -> list[str]:
    """Nothing for a struct without a code in it."""
    lines = []
    for field in fields_of(struct_type):
        value = f"{name}.{field.name}"
        if field.name in CODE_FIELDS:
            lines.append(f"if {value}: found.append({value})")
        elif isinstance(field.kind, Array) and isinstance(field.kind.element, type):
            inner = _lines(field.kind.element, f"item_{depth}", depth + 1)
            if inner:
                lines.append(f"for item_{depth} in {value} or ():")
                lines += [f"    {line}" for line in inner]
        elif isinstance(field.kind, type):
            inner = _lines(field.kind, f"item_{depth}", depth + 1)
            if inner:
                lines.append(f"if (item_{depth} := {value}) is not None:")
                lines += [f"    {line}" for line in inner]
    return lines
