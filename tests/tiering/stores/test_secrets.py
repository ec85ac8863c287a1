"""Credentials come by AWS's own ways, and are seen by nobody else."""

from __future__ import annotations

import gc
import logging
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from stratamq.cli.config import as_toml
from stratamq.model.config import load
from stratamq.model.errors import StoreDenied, StoreError
from stratamq.tiering.stores.opening import open_store, options_of
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.stores.conftest import KEY_ID, SECRET

TOKEN = "stores-test-session-token"
FILE = f"""\
[default]
aws_access_key_id = from-default
aws_secret_access_key = {SECRET}-default
[other]
aws_access_key_id = from-other
aws_secret_access_key = {SECRET}-other
"""


def test_no_setting_holds_a_secret() -> None:
    """A file and a profile are named; so nothing that prints settings can print a secret."""
    names = [name for name in load().values if name.startswith("store.")]
    assert "store.s3.credentials.file" in names
    assert not [name for name in names if name.endswith(("secret", "password", "token", "key"))]


async def test_nothing_is_logged_shown_or_dumped(
    s3_options: StoreOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    with caplog.at_level(logging.DEBUG):
        store = await open_store(s3_options)
        await store.put("k", b"x")
        await store.get_range("k", 0, 1)
        with pytest.raises(StoreError) as failed:
            await store.head("nothing")
        await store.close()
    shown = [
        caplog.text,
        repr(store),
        str(vars(store)),
        repr(vars(store._backend)),
        repr(failed.value),
        repr(failed.value.__context__),
        repr(s3_options),
        str(asdict(s3_options)),
        *as_toml(load()),
    ]
    for each in shown:
        for secret in (SECRET, TOKEN, KEY_ID):
            assert secret not in each


def client_of(store: object) -> object:
    return store._backend._client  # type: ignore[attr-defined]


def key_id_of(store: object) -> str:
    client = client_of(store)
    found: str = client._request_signer._credentials.access_key  # type: ignore[attr-defined]
    return found


async def test_the_usual_chain(
    s3_options: StoreOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment, then the file at home; a profile or a file that was named comes before."""
    named = tmp_path / "named"
    named.write_text(FILE)
    home = tmp_path / ".aws"
    home.mkdir()
    (home / "credentials").write_text(FILE.replace("from-", "home-"))

    async def found(options: StoreOptions) -> str:
        store = await open_store(options)
        await store.put("k", b"x")
        await store.close()
        return key_id_of(store)

    assert await found(s3_options) == KEY_ID
    assert await found(replace(s3_options, s3_profile="other")) == "home-other"
    by_file = options_of(load(flags={"store.s3.credentials.file": str(named)}))
    both = replace(s3_options, s3_credentials_file=by_file.s3_credentials_file)
    assert await found(replace(both, s3_profile="other")) == "from-other"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert await found(s3_options) == "home-default"
    assert await found(both) == "from-default"


async def test_no_credentials_at_all(
    s3_options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = await open_store(s3_options)
    with pytest.raises(StoreDenied, match="NoCredentials"):
        await store.head("k")
    await store.close()
    gc.collect()
