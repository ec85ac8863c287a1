"""The users of a node that is not running, in the metadata of its data folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from stratamq.broker.kafka.security.scram import new_credential
from stratamq.cli.failing import UsageError
from stratamq.client.admin.access import UserCredential
from stratamq.meta.access import DeleteCredential, Mechanism, SaveCredential
from stratamq.meta.service import MetaService
from stratamq.meta.store import RocksMetaStore
from stratamq.model.config import NodeConfig, load
from stratamq.model.errors import InvalidConfig, NotFound
from stratamq.node.composition import meta_limits
from stratamq.node.data_dir import DataDirLock
from stratamq.node.layout import META_FOLDER


class StoppedNode:
    """Holds the folder's lock for each call: a running node is refused."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, data_dir: Path | None, file: Path | None) -> Self:
        """With the settings that a node would start with. UsageError when they are wrong."""
        flags = {} if data_dir is None else {"data.dir": str(data_dir)}
        try:
            return cls(load(file, os.environ, flags))
        except InvalidConfig as error:
            raise UsageError(str(error)) from None

    async def list_users(self) -> list[UserCredential]:
        async with self._metadata() as meta:
            return sorted(
                UserCredential(one.user, one.mechanism.value, one.iterations)
                for one in meta.state.credentials.values()
            )

    async def save_user(
        self, name: str, password: bytes, mechanisms: Sequence[str], iterations: int | None
    ) -> None:
        rounds = iterations or self._config.number("scram.iterations")
        saved = [new_credential(name, Mechanism(one), password, rounds) for one in mechanisms]
        async with self._metadata() as meta:
            await meta.submit(*(SaveCredential(credential=one) for one in saved))

    async def remove_user(self, name: str, mechanisms: Sequence[str]) -> list[str]:
        """The mechanisms that the user had."""
        async with self._metadata() as meta:
            found = [
                one.mechanism
                for one in meta.state.credentials
                if one.user == name and one.mechanism in mechanisms
            ]
            if not found:
                raise NotFound(f"no user {name!r}")
            await meta.submit(*(DeleteCredential(user=name, mechanism=one) for one in found))
        return [one.value for one in found]

    @asynccontextmanager
    async def _metadata(self) -> AsyncIterator[MetaService]:
        folder = self._config.data_dir
        lock = DataDirLock(folder)
        lock.acquire()
        meta = MetaService(RocksMetaStore(folder / META_FOLDER), limits=meta_limits(self._config))
        try:
            await meta.open()
            yield meta
        finally:
            await meta.close()
            lock.release()
