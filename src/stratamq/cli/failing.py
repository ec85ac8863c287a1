"""How a command ends when it cannot go on: exit codes, and errors as sentences.

docs/cli.md has the table of exit codes for users.
"""

from __future__ import annotations

import sys
from enum import IntEnum

from stratamq.model import errors


class Exit(IntEnum):
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    NOT_FOUND = 5
    EXISTS = 6
    INTERRUPTED = 130
    PIPE_CLOSED = 141


EXIT_USAGE = Exit.USAGE

EXITS: dict[type[errors.StrataError], Exit] = {
    errors.Unreachable: Exit.UNREACHABLE,
    errors.TimedOut: Exit.UNREACHABLE,
    errors.Closed: Exit.UNREACHABLE,
    errors.Denied: Exit.DENIED,
    errors.NotFound: Exit.NOT_FOUND,
    errors.AlreadyExists: Exit.EXISTS,
}

ADVICE: dict[Exit, str] = {
    Exit.UNREACHABLE: "Is a node running there? Name it by --server HOST:PORT or --profile NAME; "
    "a profile also says how to log in and which TLS files to use.",
    Exit.DENIED: "Check user and password of the profile, and `stratamq acl list`.",
}


SERVER_PACKAGES = frozenset({"rocksdict", "starlette", "uvicorn"})
"""What a node needs and a command on a running node does not. `stratamq-client` brings none."""


def not_installed(error: ModuleNotFoundError) -> errors.StrataError | None:
    """What to install, where a command needs a package that only the full installation has."""
    if error.name not in SERVER_PACKAGES:
        return None
    return errors.StrataError(
        "this command needs the server, which is not installed: pip install stratamq"
    )


class UsageError(errors.StrataError):
    """The command line itself is wrong."""


def exit_of(error: errors.StrataError) -> Exit:
    if isinstance(error, UsageError):
        return Exit.USAGE
    return next((code for kind, code in EXITS.items() if isinstance(error, kind)), Exit.FAILED)


def fail(error: Exception, code: int = Exit.FAILED) -> SystemExit:
    """One sentence on standard error, and the exit to raise."""
    sys.stderr.write(f"stratamq: {error}\n")
    return SystemExit(int(code))


def refuse(error: errors.StrataError) -> SystemExit:
    """As `fail`, with the exit code of the error and what to do next."""
    code = exit_of(error)
    said = fail(error, code)
    advice = [ADVICE[code]] if code in ADVICE else []
    for line in [*getattr(error, "__notes__", ()), *advice]:
        sys.stderr.write(f"{line}\n")
    return said
