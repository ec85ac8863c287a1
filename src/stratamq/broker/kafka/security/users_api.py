"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stratamq.broker.kafka.contract import Caller, Family, Handled
from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.broker.kafka.security.acls import CACHE_S
from stratamq.broker.kafka.security.scram import credential_of
from stratamq.broker.kafka.turns import paced
from stratamq.meta.access import (
    AccessCacheManager,
    Credential,
    DeleteCredential,
    Mechanism,
    SaveCredential,
    check_credential,
)
from stratamq.meta.client import MetaClient
from stratamq.model.errors import InvalidInput, NotFound, StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
)

MECHANISMS = {1: Mechanism.SHA_256, 2: Mechanism.SHA_512}
NUMBERS = {mechanism: number for number, mechanism in MECHANISMS.items()}

Change = ScramCredentialDeletion | ScramCredentialUpsertion


class UsersApi(Family):
    def __init__(self, meta: MetaClient, cache: AccessCacheManager) -> None:
        self._meta, self._cache = meta, cache

    def handlers(self) -> Mapping[type, Handled]:
        return {
            DescribeUserScramCredentialsRequest: Handled(self.describe),
            AlterUserScramCredentialsRequest: Handled(self.alter),
        }

    # -- describe ------------------------------------------------------------------------------

    async def describe(
        self, request: DescribeUserScramCredentialsRequest, caller: Caller
    ) -> DescribeUserScramCredentialsResponse:
        known: dict[str, list[Credential]] = {}
        for one in (await self._meta.snapshot()).credentials.values():
            known.setdefault(one.user, []).append(one)
        asked = [one.name for one in request.users or ()] or sorted(known)
        times = Counter(asked)
        return DescribeUserScramCredentialsResponse(
            results=[
                _described(name, known.get(name, []), times[name]) async for name in paced(times)
            ]
        )

    # -- alter ---------------------------------------------------------------------------------

    async def alter(
        self, request: AlterUserScramCredentialsRequest, caller: Caller
    ) -> AlterUserScramCredentialsResponse:
        """All changes of a user are made, or none."""
        changes: dict[str, list[Change]] = {}
        for deletion in request.deletions:
            changes.setdefault(deletion.name, []).append(deletion)
        for upsertion in request.upsertions:
            changes.setdefault(upsertion.name, []).append(upsertion)
        return AlterUserScramCredentialsResponse(
            results=[await self._alter(name, some) async for name, some in paced(changes.items())]
        )

    async def _alter(self, user: str, changes: Sequence[Change]) -> AlterUserScramCredentialsResult:
        try:
            revision = await self._meta.submit(*commands_of(changes))
            await self._cache.wait_for_revision(revision, CACHE_S)
        except StrataError as error:
            code = code_of(error)
            if isinstance(error, NotFound):
                code = ErrorCode.RESOURCE_NOT_FOUND
            elif isinstance(error, InvalidInput):
                code = ErrorCode.UNACCEPTABLE_CREDENTIAL
            return AlterUserScramCredentialsResult(
                user=user, error_code=code, error_message=str(error)
            )
        return AlterUserScramCredentialsResult(user=user)


def commands_of(changes: Sequence[Change]) -> list[DeleteCredential | SaveCredential]:
    if len({change.mechanism for change in changes}) < len(changes):
        raise Refused(ErrorCode.DUPLICATE_RESOURCE)
    commands: list[DeleteCredential | SaveCredential] = []
    for change in changes:
        mechanism = MECHANISMS.get(change.mechanism)
        if not change.name:
            raise InvalidInput("a user needs a name")
        if mechanism is None:
            raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if isinstance(change, ScramCredentialDeletion):
            commands.append(DeleteCredential(user=change.name, mechanism=mechanism))
            continue
        if not change.salted_password:
            raise InvalidInput("a salted password is empty")
        credential = credential_of(
            change.name,
            mechanism,
            change.iterations,
            bytes(change.salt),
            bytes(change.salted_password),
        )
        check_credential(credential)
        commands.append(SaveCredential(credential=credential))
    return commands


def _described(
    name: str, credentials: Sequence[Credential], times: int
) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.NONE
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
    elif not credentials:
        code = ErrorCode.RESOURCE_NOT_FOUND
    infos = [
        ScramCredentialInfo(mechanism=NUMBERS[one.mechanism], iterations=one.iterations)
        for one in sorted(credentials, key=lambda one: one.mechanism)
    ]
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=code,
        error_message=code.text if code else None,
        credential_infos=[] if code else infos,
    )
