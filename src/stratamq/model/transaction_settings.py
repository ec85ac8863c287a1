"""The settings of transactions; names that Kafka has are Kafka's."""

from __future__ import annotations

from stratamq.model.settings import Setting

INT32_MAX = (1 << 31) - 1

TRANSACTIONS: tuple[Setting, ...] = (
    Setting(
        name="transaction.max.timeout.ms",
        default=900_000,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=True,
        doc="Longest transaction a producer may ask for. Above: INVALID_TRANSACTION_TIMEOUT.",
    ),
    Setting(
        name="transactional.id.expiration.ms",
        default=604_800_000,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=True,
        doc="A transactional id that was not used for this long is forgotten.",
    ),
    Setting(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        minimum=10,
        doc="How often transactions past their time are looked for; those that have not ended a "
        "second later are aborted.",
    ),
    Setting(
        name="meta.transactions.max",
        default=100_000,
        minimum=1,
        doc="Transactional ids there may be. Met: one more has to wait until another expires.",
    ),
    Setting(
        name="meta.transaction.partitions.max",
        default=1_000_000,
        minimum=1,
        doc="Partitions of all open transactions, one counted for each transaction that has it. "
        "When it is reached, partitions are not added: COORDINATOR_NOT_AVAILABLE, and clients "
        "retry.",
    ),
)
