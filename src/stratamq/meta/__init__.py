"""What a cluster agrees on: topics, shards, segments, nodes and group offsets.

Read in this order:

    state                the whole state as an immutable value, its laws, and events
    topics, shards, segments, tier, nodes, groups, transactions, access, configs
                         one subject each: entities, commands, rules, rows, and a node's cache
    apply, evolve        a command becomes events, events become the next state, purely
    rows, store          the same state as rows of a key-value store
    client               how the rest of a node follows it: client, watch, cache
    limits, service      the one task that checks, applies, stores and then publishes
"""
