"""Having a node make a backup of itself."""

from __future__ import annotations

from stratamq.client.failures import ERRORS
from stratamq.client.router import Router
from stratamq.model.errors import StorageError
from stratamq.wire.kafka.protocol import error_of
from stratamq.wire.kafka.protocol.messages.backup import BackUpRequest, BackUpResponse


async def back_up(router: Router, name: str, *, begins: bool, wait_ms: int) -> BackUpResponse:
    """Begin a backup, or wait for one that was begun. Until it `is_done`, ask again without
    `begins`. Nothing is retried: a backup that failed has failed."""
    request = BackUpRequest(name=name, begins=begins, timeout_ms=wait_ms)
    answer = await router.ask_any(request, BackUpResponse)
    if answer.error_code:
        code = error_of(answer.error_code)
        raise ERRORS.get(code, StorageError)(answer.error_message or code.text)
    return answer
