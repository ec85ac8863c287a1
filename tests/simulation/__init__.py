"""Whole clusters in one thread: the real code of nodes and clients, with twins for time, network
and disks, all driven by one seed. The same seed does the same, step by step.

    with World(seed) as world:
        node = world.node("n1")
        client = world.host("c1")
        world.run(client, work())

| file          | is                                                                         |
|---------------|----------------------------------------------------------------------------|
| `loop.py`     | the event loop: virtual time, the order of everything by seed              |
| `network.py`  | streams between hosts: delays, cuts, resets                                |
| `host.py`     | a machine that dies and comes back with what its disk kept                 |
| `world.py`    | hosts, network and chance of one run                                       |
| `workload.py` | what clients do, and a history of what they were answered                  |
| `trouble.py`  | cuts, resets, kills, power failures                                        |
| `checks.py`   | what a history and the logs after it must fulfil (pure)                    |
"""
