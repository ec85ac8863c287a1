"""Having a node check itself."""

from __future__ import annotations

from stratamq.client.failures import check
from stratamq.client.router import Router
from stratamq.model.findings import CheckResult, Finding
from stratamq.wire.kafka.protocol.messages.node_check import CheckNodeRequest, CheckNodeResponse


async def check_node(router: Router, name: str) -> Finding:
    """One check by its name. Denied without DESCRIBE on the cluster; UnsupportedFormat when the
    node, of another version, does not know it."""
    request = CheckNodeRequest(name=name)

    async def once() -> Finding:
        answer = await router.ask_any(request, CheckNodeResponse)
        check(answer.error_code, name, answer.error_message)
        return Finding(CheckResult(answer.result), answer.text)

    return await router.retried(once)
