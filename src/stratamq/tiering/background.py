"""Processes of ours next to the node, for work that would hold the node's GIL, and their priority.

Such a process runs a module that reads lines and answers in lines, at the lowest priority of the
machine unless a client waits for its work. If it dies, the caller gets an error with the last lines
of its stderr; the node goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import stratamq
from stratamq.model import errors
from stratamq.model.errors import StorageError, StrataError

NICENESS = 19
MOMENT_S = 0.0002


def put_last(pid: int = 0) -> None:
    """Give a process the lowest priority: it runs when no other would, and makes way at once. The
    parent calls it as soon as the process exists, so that its imports are covered, too."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def let_compete(pid: int) -> None:
    """Let a process compete that has waited for too long: on a machine that is never idle it would
    wait for ever. Its niceness stays the lowest."""
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def compete(pid: int) -> bool:
    """Give a process the priority of this one; False where the system does not allow it. Processes
    of an ordinary user may become less important, and never more so."""
    try:
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))
    except OSError:
        return False
    return True


def make_way() -> None:
    """Release the GIL between the calls of a thread. A thread that goes from one short call to the
    next takes the GIL back before a waiting thread has woken up, and requests of clients wait for
    tens of milliseconds."""
    time.sleep(MOMENT_S)


LAST_WORDS_BYTES = 400
PARTING_S = 10.0
"""One that has stopped talking has that long to end by itself, and to say why."""

SECRETS = "AWS_"
"""How the names of variables begin that hold the store's credentials."""

Answer = TypeVar("Answer")


class Background:
    """`say` and `hear` block, on a thread; `kill` may come from another one, and ends their wait
    with StorageError. It is started when something is first said. One that has ended stays so:
    make another."""

    def __init__(
        self, name: str, module: str, *, credentials: bool = False, greeting: bytes = b""
    ) -> None:
        """`name` is what errors call it. The greeting is said first. Without `credentials` it gets
        none of the store's: not every process has to talk to it."""
        self.name = name
        self._module, self._credentials, self._greeting = module, credentials, greeting
        self._process: subprocess.Popen[bytes] | None = None
        self._words: BinaryIO | None = None
        self._killed = False
        self._is_last = True

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def put_last(self) -> None:
        """From now on at the lowest priority."""
        if self.pid:
            put_last(self.pid)
        self._is_last = True

    def compete(self) -> bool:
        """From now on at the priority of the node, if the system allows it."""
        if self._is_last and (self.pid is None or compete(self.pid)):
            self._is_last = False
        return not self._is_last

    def say(self, request: bytes) -> None:
        """StorageError when it is not there to hear it."""
        started = self._process is None
        process = self._process = self._process or self._start()
        if self._killed:  # while it was started
            self.kill()
        assert process.stdin
        try:
            process.stdin.write(self._greeting + request if started else request)
            process.stdin.flush()
        except (OSError, ValueError):  # it died, or was ended
            raise self._end() from None

    def hear(self, decode: Callable[[bytes], Answer]) -> Answer:
        """Return its next line. StorageError when it ends before that, or the line cannot be
        decoded."""
        assert self._process, "who was asked nothing says nothing"
        assert self._process.stdout
        line = b""
        with contextlib.suppress(OSError, ValueError):  # as above
            line = self._process.stdout.readline()
        if not line.endswith(b"\n"):  # its last one may be cut off
            raise self._end()
        try:
            return decode(line)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StorageError(f"{self.name} said {line[:100]!r}") from error

    def kill(self) -> None:
        """Kill the process and wait for its end. It holds nothing that is not stored elsewhere."""
        self._killed = True
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        for file in (process.stdin, process.stdout, self._words):
            with contextlib.suppress(OSError):  # what could not be sent is of no use now
                if file:
                    file.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=environment(credentials=self._credentials),
        )
        if self._is_last:
            put_last(process.pid)
        return process

    def _end(self) -> StorageError:
        return StorageError(f"{self.name} {self._how_it_ended()}")

    def _how_it_ended(self) -> str:
        process, file = self._process, self._words
        if self._killed or process is None or file is None:
            return "was stopped"
        try:
            code = process.wait(PARTING_S)
        except subprocess.TimeoutExpired:
            return "does not talk any more"
        how = f"ended with status {code}"
        if code < 0:
            known = -code in set(signal.Signals)
            how = f"was killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        words = ""
        with contextlib.suppress(OSError, ValueError):  # it may be killed this moment
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LAST_WORDS_BYTES))
            words = file.read().decode(errors="replace").strip()
        return f"{how}: {words}" if words else how


class Urgency:
    """Decides the priority of processes: the node's own while a client waits, the lowest otherwise.

    A process that was put last may not be able to come back. It finishes its work as it is; for
    the next work that a client waits for, `fits` says that another has to be started.
    """

    def __init__(self) -> None:
        self._clients = 0
        self._working: dict[Background, None] = {}

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """A client waits for what is done meanwhile, and for work that was under way before."""
        self._clients += 1
        for process in self._working:
            process.compete()
        try:
            yield
        finally:
            self._clients -= 1
            if not self._clients:
                for process in self._working:
                    process.put_last()

    @contextlib.contextmanager
    def working(self, process: Background) -> Iterator[None]:
        """A process works, at the priority of its work. It stays there while it is idle."""
        self._working[process] = None
        if self._clients:
            process.compete()
        else:
            process.put_last()
        try:
            yield
        finally:
            del self._working[process]

    def fits(self, process: Background) -> bool:
        """Whether an idle process can have the priority that work has now."""
        return not self._clients or process.compete()


def environment(*, credentials: bool) -> dict[str, str]:
    """Ours, so that the same code is found."""
    own = {
        name: value
        for name, value in os.environ.items()
        if credentials or not name.startswith(SECRETS)
    }
    here = str(Path(stratamq.__file__).parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**own, "PYTHONPATH": os.pathsep.join(paths)}


def as_error(name: str, kind: str, message: str, *more: type[StrataError]) -> StrataError:
    """What was raised there, by the name of its class. Errors of ours keep their kind, those in
    `more` too; anything else is the process's own."""
    known = {one.__name__: one for one in more}
    found = known.get(kind) or getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, StrataError):
        with contextlib.suppress(TypeError):  # some carry more than a message
            return found(message)
    return StorageError(f"{name} failed: {kind}: {message}")
