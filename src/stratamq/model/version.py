"""The version of this package, under whichever name it was installed."""

from __future__ import annotations

import functools

DISTRIBUTIONS = ("stratamq", "stratamq-client")
"""The full package, and the one for machines that only reach a node (see docs/deploying.md)."""


@functools.cache
def own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow: reads mail headers

    for name in DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"  # a checkout on the path of Python, not installed
