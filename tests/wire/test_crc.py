"""The checksum, and what importing it must not cost."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package
import pytest

from stratamq.wire import crc

CHECK = b"123456789"
CHECK_SUM = 0xE3069283
"""The check value of CRC-32C, from RFC 3720's polynomial."""


def test_it_is_crc_32c() -> None:
    assert crc.crc32c(CHECK) == CHECK_SUM
    assert crc.crc32c(CHECK[4:], crc.crc32c(CHECK[:4])) == CHECK_SUM


def test_the_package_around_it_is_not_imported() -> None:
    ask = "import sys, stratamq.wire.kafka.records; print('importlib.metadata' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_where_the_compiled_part_is_not_found_the_package_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crc, "COMPILED", "_not_there")
    assert crc.compiled_part() is None
    assert crc._function() is package.crc32c
