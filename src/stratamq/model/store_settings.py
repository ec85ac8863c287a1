"""Where history goes: the object store, and what it may use."""

from __future__ import annotations

from stratamq.model.settings import Setting

MIB = 1 << 20

STORES: tuple[Setting, ...] = (
    Setting(
        name="store.url",
        default="",
        doc="`file:///folder`, `s3://bucket/prefix` or `hdfs://host/folder`. Empty: the folder "
        "`cold` below `data.dir`.",
    ),
    Setting(
        name="store.s3.endpoint",
        default="",
        doc="Address of a store that speaks S3, such as `http://host:9000`. Empty: AWS.",
    ),
    Setting(
        name="store.s3.region",
        default="",
        doc="Region of the bucket. Empty: what AWS's own settings say, else `us-east-1`.",
    ),
    Setting(
        name="store.s3.path.style",
        default=False,
        doc="Whether the bucket stands in the path and not in the host name; most stores that are "
        "not AWS want it.",
    ),
    Setting(
        name="store.s3.profile",
        default="",
        doc="Profile of AWS's own files whose credentials are used. Empty: the usual chain "
        "(environment, files, container, machine).",
    ),
    Setting(
        name="store.s3.credentials.file",
        default="",
        doc="File with credentials, in the format of AWS's. Empty: `~/.aws/credentials`. Secrets "
        "are never settings themselves.",
    ),
    Setting(
        name="store.hdfs.http.address",
        default="",
        doc="The NameNode's WebHDFS: `host:9870`, or `https://host:9871`; several with commas. "
        "Empty: port 9870 of the host in `store.url`.",
    ),
    Setting(
        name="store.hdfs.user",
        default="",
        doc="User in whose name files are made. Empty: the user of this process.",
    ),
    Setting(
        name="store.uploads.max",
        default=4,
        minimum=1,
        maximum=256,
        doc="Uploads (of objects or parts) and deletions at once. Met: the others wait.",
    ),
    Setting(
        name="store.reads.max",
        default=16,
        minimum=1,
        maximum=256,
        doc="Reads at once. Met: the others wait.",
    ),
    Setting(
        name="store.connect.timeout.ms",
        default=5_000,
        minimum=1,
        doc="Time to connect to the store. Passed: the attempt has failed.",
    ),
    Setting(
        name="store.timeout.ms",
        default=20_000,
        minimum=1,
        doc="Silence of the store. Passed: the attempt has failed, and another is made.",
    ),
    Setting(
        name="store.attempts.max",
        default=5,
        minimum=1,
        doc="Attempts of one request. All failed: a retriable error.",
    ),
    Setting(
        name="store.backoff.ms",
        default=100,
        minimum=1,
        doc="Longest wait before the second attempt; each further one may wait twice as long.",
    ),
    Setting(
        name="store.backoff.max.ms",
        default=5_000,
        minimum=1,
        doc="Longest wait before any attempt. The wait itself is drawn at random below it.",
    ),
    Setting(
        name="store.retry.ms.max",
        default=60_000,
        minimum=0,
        doc="No further attempt is begun this long after the first.",
    ),
    Setting(
        name="store.part.bytes",
        default=16 * MIB,
        minimum=5 * MIB,
        maximum=512 * MIB,
        doc="Larger objects go to S3 in parts of about this size. One part per upload is in "
        "memory.",
    ),
)
