"""URLs and settings: what is wrong with them is said in words, and before anything is started."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import pytest

from stratamq.model.config import load
from stratamq.model.errors import InvalidConfig
from stratamq.tiering.stores.opening import open_store, options_of
from stratamq.tiering.stores.options import StoreLimits, StoreOptions, StoreUrl, parse_url


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("file:///var/lib/cold", StoreUrl("file", "", "/var/lib/cold")),
        ("file://localhost/var/lib/cold/", StoreUrl("file", "", "/var/lib/cold")),
        ("file:///with%20space", StoreUrl("file", "", "/with space")),
        ("s3://bucket", StoreUrl("s3", "bucket", "")),
        ("s3://bucket/", StoreUrl("s3", "bucket", "")),
        ("s3://bucket/some/prefix/", StoreUrl("s3", "bucket", "some/prefix")),
        ("hdfs://host", StoreUrl("hdfs", "host", "")),
        ("hdfs://host:8020/folder", StoreUrl("hdfs", "host:8020", "folder")),
    ],
)
def test_urls(url: str, parsed: StoreUrl) -> None:
    assert parse_url(url) == parsed
    assert parse_url(str(parsed).replace(" ", "%20")) == parsed


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("gs://bucket", "'gs' is not one of file://, s3://, hdfs://"),
        ("/var/lib", "no scheme"),
        ("s3:///prefix", "the bucket is missing"),
        ("s3://", "the bucket is missing"),
        ("s3://bucket/../other", "safe names"),
        ("s3://bucket/a?region=x", "takes no"),
        ("s3://bucket/a#b", "takes no"),
        ("file://host/folder", "another machine"),
        ("file:///", "absolute folder"),
        ("file:folder", "absolute folder"),
        ("hdfs:///folder", "the host is missing"),
        ("hdfs://:8020/folder", "the host is missing"),
        ("hdfs://host:port/folder", "no port"),
        ("s3://buck\net/a", "characters"),
    ],
)
def test_urls_that_are_refused(url: str, complaint: str) -> None:
    with pytest.raises(InvalidConfig, match=complaint):
        parse_url(url)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_url("s3://AKIAKEY:very-secret@bucket/prefix")
    assert "very-secret" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)


def test_the_default_is_a_folder_of_the_node(tmp_path: Path) -> None:
    options = options_of(load(flags={"data.dir": str(tmp_path)}))
    assert options == StoreOptions(url=(tmp_path / "cold").as_uri())


@pytest.mark.parametrize("field", [field.name for field in fields(StoreOptions)])
def test_each_option_can_be_set(field: str) -> None:
    changed: dict[str, object] = {
        name: not value if isinstance(value, bool) else value + 1
        for name, value in load().values.items()
        if name.startswith("store.") and isinstance(value, int)
    }
    texts = [
        name for name, value in load().values.items() if name.startswith("store.") and value == ""
    ]
    options = options_of(load(flags=changed | {name: f"{name} given" for name in texts}))
    assert getattr(options, field) != getattr(StoreOptions(url=""), field)


@pytest.mark.parametrize("field", [field.name for field in fields(StoreLimits)])
def test_each_limit_can_be_set(field: str) -> None:
    changed = {
        name: value + 1
        for name, value in load().values.items()
        if name.startswith("store.") and isinstance(value, int) and not isinstance(value, bool)
    }
    limits = options_of(load(flags=changed)).limits
    assert getattr(limits, field) == getattr(StoreLimits(), field) + 1


@pytest.mark.parametrize("url", ["s3://bucket", "hdfs://host"])
async def test_a_missing_library_is_named_with_its_extra(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("stratamq.tiering.stores.")]:
        if name.split(".")[3] in ("s3", "hdfs"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("botocore", "botocore.exceptions", "botocore.session", "urllib3"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidConfig, match=r"stratamq\[lake\]"):
        await open_store(StoreOptions(url=url))


@pytest.mark.parametrize("address", ["ftp://host:1", "http://", "user:password@host:9870"])
async def test_addresses_of_hdfs_that_are_refused(address: str) -> None:
    with pytest.raises(InvalidConfig, match=r"store\.hdfs\.http\.address") as refused:
        await open_store(StoreOptions(url="hdfs://host", hdfs_http_address=address))
    assert "password" not in str(refused.value)


async def test_a_profile_that_does_not_exist() -> None:
    with pytest.raises(InvalidConfig, match="nobody"):
        await open_store(StoreOptions(url="s3://bucket", s3_profile="nobody"))


async def test_an_endpoint_that_is_no_address() -> None:
    with pytest.raises(InvalidConfig, match="endpoint"):
        await open_store(StoreOptions(url="s3://bucket", s3_endpoint="not an address"))
