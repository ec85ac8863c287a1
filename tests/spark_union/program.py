"""A whole node, with a way to delete single records: no protocol that it speaks has one.

    python -m tests.spark_union.program DATA [name=value ...]

It prints the ready line. Then each line that comes, `topic partition offset`, deletes a record, and
is answered with `True`, or `False` where there was none.
"""

from __future__ import annotations

import asyncio
import sys

from stratamq.model.config import load
from stratamq.model.types import Offset
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront
from stratamq.node.server import serve


async def main(data: str, *settings: str) -> None:
    given = dict(one.split("=", 1) for one in settings)
    config = load(None, {}, {"kafka.port": "0", **given, "data.dir": data})
    core = NodeCore(config)
    obeying: list[asyncio.Task[None]] = []

    def ready(line: str) -> None:
        print(line, flush=True)
        obeying.append(asyncio.create_task(obey(core)))

    await serve(config, core, [KafkaFront(config, core)], ready)


async def obey(core: NodeCore) -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        topic, partition, offset = line.decode().split()
        done = await core.drivers.delete_by_offset(topic, int(partition), Offset(int(offset)))
        print(done, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
