"""How a command ends when it cannot go on."""

from __future__ import annotations

import sys

EXIT_USAGE = 2


def fail(error: Exception, code: int = 1) -> SystemExit:
    """One sentence on standard error, and the exit to raise."""
    sys.stderr.write(f"stratamq: {error}\n")
    return SystemExit(code)
