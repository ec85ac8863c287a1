"""A converter: a process that turns segments into files, one at a time, and gives way to others.

`python -m stratamq.tiering.converter.worker` takes a request per line and answers in lines. It ends
when its input does, in the middle of its work too: a node that is gone needs no files.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

from stratamq.tiering.converter.requests import (
    Answer,
    Conversion,
    ConversionFailure,
    ConversionProgress,
    decode_request,
    encode_answer,
)

MEMORY_BYTES_MAX = 4 << 30
"""Address space, most of it never touched. A file needs about a tenth of it: a row group with all
its columns, a chunk of the log and one unpacked batch."""
OOM_SCORE = "600"
"""When memory is short, a file that can be made again goes before a node."""
PROGRESS_S = 0.25


def main() -> None:
    give_way()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    out = sys.stdout.buffer
    while True:
        say(out, answer(requests.get(), out))


def give_way() -> None:
    """Give way to all other processes when memory is short. The node sets the priority, and ends
    this process, not a key on a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES_MAX if most == resource.RLIM_INFINITY else min(most, MEMORY_BYTES_MAX)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def listen(source: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    """The only exit: whatever the process is doing when the node goes, it goes too."""
    for line in source:
        requests.put(line)
    os._exit(0)


def answer(line: bytes, out: BinaryIO) -> Answer:
    """Carry out a request. A failure is an answer too: the next segment may go well."""
    try:
        return _convert(decode_request(line), out)
    except MemoryError:
        return ConversionFailure(
            "CapacityExceeded", "the segment needs more memory than a converter has"
        )
    except OSError as error:
        return ConversionFailure("StorageError", f"{error.filename or 'file'}: {error.strerror}")
    except Exception as error:
        return ConversionFailure(type(error).__name__, str(error) or repr(error))


def _convert(work: Conversion, out: BinaryIO) -> Answer:
    from stratamq.tiering.converter.convert import convert  # pyarrow: half a second, and only here

    last_s = time.monotonic()

    def report(done_bytes: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s > PROGRESS_S:
            last_s = time.monotonic()
            say(out, ConversionProgress(done_bytes))

    return convert(work, report)


def say(out: BinaryIO, said: Answer) -> None:
    out.write(encode_answer(said))
    out.flush()


if __name__ == "__main__":
    main()
