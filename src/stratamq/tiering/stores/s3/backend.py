"""`s3://`: AWS and what speaks like it.

Every body goes with its MD5, which all S3 stores check; the entity tag that comes back must be that
MD5 as well, which finds the damage in stores that do not. Our own sums and the put's token are user
metadata of the object.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from stratamq.model.errors import CorruptObject, ObjectNotFound, StoreError, StoreUnavailable
from stratamq.tiering.stores.attempts import Deadline, body_pieces
from stratamq.tiering.stores.backend import REMOTE_WINDOW_BYTES, Head, Tags
from stratamq.tiering.stores.contract import Listed, Page
from stratamq.tiering.stores.s3.client import translated
from stratamq.tiering.stores.source import UploadSource

SUMS, TOKEN = "stratamq-sums", "stratamq-put"

_MD5 = re.compile(r"[0-9a-f]{32}(-\d+)?")


class S3Backend:
    """Uses a botocore client, which may be called from several threads."""

    window_bytes = REMOTE_WINDOW_BYTES

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket = client, bucket
        self._base = f"{prefix}/" if prefix else ""

    # -- whole objects -----------------------------------------------------------------------------

    def put(self, key: str, source: UploadSource, tags: Tags, *, if_absent: bool) -> None:
        data = source.read()
        digest = _md5(data)
        with translated(f"put {key}"):
            answer = self._client.put_object(
                **self._at(key),
                Body=_Body(data, source.deadline),
                ContentMD5=base64.b64encode(digest).decode(),
                Metadata={SUMS: tags.sums, TOKEN: tags.token},
                **_condition(if_absent),
            )
        self._keep_if_right(key, answer, digest.hex())

    def _keep_if_right(self, key: str, answer: dict[str, Any], expected: str) -> None:
        """Delete the object again if the store received wrong bytes: some stores check nothing."""
        try:
            _check_tag(key, answer, expected)
        except CorruptObject:
            with contextlib.suppress(StoreError):
                self.delete(key)
            raise

    def head(self, key: str) -> Head:
        with translated(f"head {key}"):
            answer = self._client.head_object(**self._at(key))
        metadata = answer.get("Metadata", {})
        tags = Tags(metadata[SUMS], metadata.get(TOKEN, "")) if SUMS in metadata else None
        return Head(answer["ContentLength"], _ms(answer["LastModified"]), tags)

    def read(self, key: str, start: int, stop: int, deadline: Deadline) -> bytes:
        data = bytearray()
        with translated(f"get {key}"):
            answer = self._client.get_object(**self._at(key), Range=f"bytes={start}-{stop - 1}")
            with answer["Body"] as body:  # urllib3's answer, out of botocore's wrapper
                for piece in body_pieces(body, deadline):
                    data += piece
                    if len(data) > stop - start:  # a store that ignores the range
                        break
        if len(data) < answer["ContentLength"]:
            raise StoreUnavailable(f"get {key}: cut off after {len(data)} bytes")
        return bytes(data)

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectNotFound), translated(f"delete {key}"):
            self._client.delete_object(**self._at(key))

    def list_page(self, prefix: str, after: str, limit: int) -> Page:
        wanted: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._base + prefix}
        if after:
            wanted["StartAfter"] = self._base + after
        with translated(f"list {prefix}"):
            answer = self._client.list_objects_v2(**wanted, MaxKeys=limit)
        found = tuple(
            Listed(each["Key"].removeprefix(self._base), each["Size"], _ms(each["LastModified"]))
            for each in answer.get("Contents", ())
        )
        return Page(found, bool(answer.get("IsTruncated")))

    def close(self) -> None:
        self._client.close()

    # -- parts -------------------------------------------------------------------------------------

    def begin(self, key: str, tags: Tags) -> str:
        with translated(f"begin {key}"):
            answer = self._client.create_multipart_upload(
                **self._at(key), Metadata={SUMS: tags.sums, TOKEN: tags.token}
            )
        return str(answer["UploadId"])

    def part(self, key: str, upload: str, number: int, source: UploadSource) -> str:
        data = source.read()
        digest = _md5(data)
        with translated(f"part {number} of {key}"):
            answer = self._client.upload_part(
                **self._at(key),
                UploadId=upload,
                PartNumber=number,
                Body=_Body(data, source.deadline),
                ContentMD5=base64.b64encode(digest).decode(),
            )
        _check_tag(key, answer, digest.hex())
        return str(answer["ETag"])

    def finish(self, key: str, upload: str, receipts: Sequence[str], *, if_absent: bool) -> None:
        parts = [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(receipts, 1)]
        with translated(f"finish {key}"):
            answer = self._client.complete_multipart_upload(
                **self._at(key),
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                **_condition(if_absent),
            )
        _check_tag(key, answer, _tag_of_parts(receipts))

    def abort(self, key: str, upload: str) -> None:
        with contextlib.suppress(ObjectNotFound), translated(f"abort {key}"):
            self._client.abort_multipart_upload(**self._at(key), UploadId=upload)

    def sweep(self, before_ms: int) -> int:
        """Uploads that were begun and neither finished nor aborted: S3 keeps, and bills, their
        parts without showing them."""
        with translated("list uploads"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._base
            )
            old = [
                upload
                for page in pages
                for upload in page.get("Uploads", ())
                if _ms(upload["Initiated"]) < before_ms
            ]
        for upload in old:
            self.abort(upload["Key"].removeprefix(self._base), upload["UploadId"])
        return len(old)

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._base + key}


class _Body(io.BytesIO):
    """Read by botocore a little at a time, so that a store that takes bytes at a trickle is given
    up."""

    def __init__(self, data: bytes, deadline: Deadline) -> None:
        super().__init__(data)
        self._deadline = deadline

    def read(self, size: int | None = -1, /) -> bytes:
        self._deadline.check()
        return super().read(size)


def _condition(if_absent: bool) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if if_absent else {}


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _tag_of_parts(receipts: Sequence[str]) -> str:
    """Compute the tag of an object made of these parts; empty unless parts' tags are MD5s."""
    tags = [receipt.strip('"') for receipt in receipts]
    if not all(_MD5.fullmatch(tag) for tag in tags):
        return ""
    return f"{_md5(b''.join(map(bytes.fromhex, tags))).hex()}-{len(tags)}"


def _check_tag(key: str, answer: dict[str, Any], expected: str) -> None:
    """CorruptObject if the store says it has other bytes. With a key of its own for encryption, its
    tag is no MD5 and says nothing."""
    tag = str(answer.get("ETag", "")).strip('"')
    encrypted = answer.get("ServerSideEncryption", "AES256") != "AES256"
    if encrypted or "SSECustomerAlgorithm" in answer or not _MD5.fullmatch(tag) or not expected:
        return
    if tag != expected:
        raise CorruptObject(f"{key}: the store received other bytes")


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)
