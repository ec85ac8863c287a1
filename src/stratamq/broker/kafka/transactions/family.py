"""TransactionApis as a family of Kafka APIs."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.groups.family import Groups
from stratamq.broker.kafka.transactions.admin_api import TransactionAdminApi
from stratamq.broker.kafka.transactions.api import TransactionApi
from stratamq.broker.kafka.transactions.coordinator import TransactionCoordinator
from stratamq.broker.kafka.transactions.offsets_api import TransactionOffsetsApi
from stratamq.broker.kafka.transactions.verifying import TransactionVerifier
from stratamq.wire.kafka.protocol.messages import transactions, transactions_admin


class TransactionApis(Family):
    """`verifier` is for Produce: it says which transactional batches may be written."""

    def __init__(self, services: Services, groups: Groups) -> None:
        self.coordinator = TransactionCoordinator(services, groups.pending)
        self.verifier = TransactionVerifier(self.coordinator)
        self._api = TransactionApi(services, self.coordinator)
        self._offsets = TransactionOffsetsApi(services, self.coordinator, groups)
        self._admin = TransactionAdminApi(services, self.coordinator)

    def handlers(self) -> Mapping[type, Handled]:
        return {
            transactions.InitProducerIdRequest: Handled(self._api.init_producer_id),
            transactions.AddPartitionsToTxnRequest: Handled(self._api.add_partitions),
            transactions.AddOffsetsToTxnRequest: Handled(self._api.add_offsets),
            transactions.EndTxnRequest: Handled(self._api.end),
            transactions.TxnOffsetCommitRequest: Handled(self._offsets.commit),
            transactions.WriteTxnMarkersRequest: Handled(self._admin.write_markers),
            transactions_admin.DescribeTransactionsRequest: Handled(self._admin.describe),
            transactions_admin.DescribeProducersRequest: Handled(self._admin.describe_producers),
            transactions_admin.ListTransactionsRequest: Handled(self._admin.list_all),
        }

    async def start(self) -> None:
        await self.coordinator.start()

    async def stop(self) -> None:
        await self.coordinator.stop()
