"""Iceberg's metadata files, read and written where a topic's other objects are.

pyiceberg asks a FileIO of its own kind for them. This one goes to our own stores: all of them work,
HDFS too, retries and time-outs are ours, and no credentials leave the store that has them.
"""

from __future__ import annotations

import io
from typing import Any, Protocol
from weakref import WeakValueDictionary

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from stratamq.model.errors import InvalidInput, ObjectExists, ObjectNotFound

IMPLEMENTATION = "py-io-impl"
WHICH = "stratamq.blobs"


class Blobs(Protocol):
    """An object store as a thread sees it: every call waits. Errors are those of stores."""

    @property
    def url(self) -> str:
        """What stands before the keys, without a slash at its end."""

    def size(self, key: str) -> int: ...

    def read(self, key: str, start: int, stop: int) -> bytes: ...

    def write(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...


_known: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""pyiceberg makes a FileIO of texts alone: this is how one finds its store."""


def io_properties(blobs: Blobs) -> dict[str, str]:
    """Return the properties that make pyiceberg use these blobs, for as long as they are
    referenced."""
    which = f"{id(blobs):x}"
    _known[which] = blobs
    return {IMPLEMENTATION: f"{BlobIO.__module__}.{BlobIO.__qualname__}", WHICH: which}


class BlobIO(FileIO):
    """Files of one store, by their URLs."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._blobs: Blobs = _known[properties[WHICH]]

    def new_input(self, location: str) -> BlobInput:
        return BlobInput(location, self._blobs)

    def new_output(self, location: str) -> BlobOutput:
        return BlobOutput(location, self._blobs)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        url = location if isinstance(location, str) else location.location
        self._blobs.delete(key_of(url, self._blobs))


def key_of(location: str, blobs: Blobs) -> str:
    before, url, key = location.partition(f"{blobs.url}/")
    if before or not url or not key:
        raise InvalidInput(f"{location} does not lie in {blobs.url}")
    return key


class BlobInput(InputFile):
    def __init__(self, location: str, blobs: Blobs) -> None:
        super().__init__(location)
        self._blobs = blobs
        self._key = key_of(location, blobs)

    def __len__(self) -> int:
        return self._blobs.size(self._key)

    def exists(self) -> bool:
        try:
            return len(self) >= 0
        except ObjectNotFound:
            return False

    def open(self, seekable: bool = True) -> InputStream:
        """The whole of it: metadata files are small."""
        try:
            return io.BytesIO(self._blobs.read(self._key, 0, len(self)))
        except ObjectNotFound:
            raise FileNotFoundError(self.location) from None


class BlobOutput(OutputFile):
    def __init__(self, location: str, blobs: Blobs) -> None:
        super().__init__(location)
        self._blobs = blobs

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> BlobInput:
        return BlobInput(self.location, self._blobs)

    def create(self, overwrite: bool = False) -> OutputStream:
        if not overwrite and self.exists():
            raise ObjectExists(f"{self.location} is there already")
        return _Sink(key_of(self.location, self._blobs), self._blobs)


class _Sink(io.BytesIO):
    """Stored when it is closed in good order; what was broken off is not."""

    def __init__(self, key: str, blobs: Blobs) -> None:
        super().__init__()
        self._key = key
        self._blobs = blobs

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            io.BytesIO.close(self)
        super().__exit__(kind, *rest)

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._blobs.write(self._key, data)
