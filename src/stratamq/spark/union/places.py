"""Where the files of an object store are, as Spark writes it."""

from __future__ import annotations

import re

from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.tiering.stores.urls import parse_url

S3_PACKAGE = "org.apache.hadoop:hadoop-aws"
S3_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SCHEMES = {"file": "file", "s3": "s3a", "hdfs": "hdfs"}
_PATTERN = re.compile(r"([\\{}\[\]*?])")


def path_of(store_url: str, key: str) -> str:
    """The file itself: what would be a pattern to Spark is not one."""
    url = parse_url(store_url)
    folder = url.path.strip("/")
    path = f"{folder}/{key}" if folder else key
    return f"{_SCHEMES[url.scheme]}://{url.place}/" + _PATTERN.sub(r"\\\1", path)


def explained(error: Exception, store_url: str) -> Exception:
    """What keeps Spark from files, in a sentence where it is known."""
    text = str(error)
    if S3_CLASS in text:
        return InvalidConfig(
            f"Spark cannot read {store_url}: it was started without {S3_PACKAGE}; "
            f"`stratamq spark submit --s3` brings it, and so does --packages {S3_PACKAGE}:VERSION "
            "with the version of Spark's own Hadoop"
        )
    if "PATH_NOT_FOUND" in text:
        return StrataError(
            f"files of {store_url} are not there any more, or not on this machine: a store that is "
            "a folder has to be at the same place for Spark and for the nodes"
        )
    return error
