"""Where the files of an object store are, as Spark writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.tiering.stores.options import parse_url
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake

S3_PACKAGE = "org.apache.hadoop:hadoop-aws"
S3_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SCHEMES = {"file": "file", "s3": "s3a", "hdfs": "hdfs"}
REGION = "us-east-1"
"""What a node takes for it, where nobody says one."""

CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)
"""What Spark itself was given (it hands the driver's environment to executors), then AWS's own
ways, as nodes go them. Without the last, s3a would not look into AWS's files."""

_PATTERN = re.compile(r"([\\{}\[\]*?])")


def path_of(store_url: str, key: str) -> str:
    """The file itself: what would be a pattern to Spark is not one."""
    url = parse_url(store_url)
    folder = url.path.strip("/")
    path = f"{folder}/{key}" if folder else key
    return f"{_SCHEMES[url.scheme]}://{url.place}/" + _PATTERN.sub(r"\\\1", path)


def reached(lake: DescribedLake) -> Mapping[str, str]:
    """How Spark gets at the files, from what the node says of its own store. No secret is in it."""
    if not lake.store_url.startswith("s3://"):
        return {}
    region = lake.s3_region or (REGION if lake.s3_endpoint else "")
    found = {
        "fs.s3a.endpoint": lake.s3_endpoint,
        "fs.s3a.endpoint.region": region,
        "fs.s3a.path.style.access": "true" if lake.s3_path_style else "",
        "fs.s3a.aws.credentials.provider": ",".join(CREDENTIALS),
    }
    return {name: value for name, value in found.items() if value}


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
