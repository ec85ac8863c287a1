"""What a store is opened with. No secret is among it: credentials are found by AWS's own ways."""

from __future__ import annotations

from dataclasses import dataclass, field

from stratamq.tiering.stores.limits import StoreLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The settings `store.*`; see docs/configuration.md."""

    url: str
    s3_endpoint: str = ""
    s3_region: str = ""
    s3_path_style: bool = False
    s3_profile: str = ""
    s3_credentials_file: str = ""
    hdfs_http_address: str = ""
    hdfs_user: str = ""
    limits: StoreLimits = field(default_factory=StoreLimits)
