"""What a cluster agrees on: topics, shards, segments, nodes and group offsets.

Read in this order:

    entities, state      what is known, as immutable values
    commands, apply      what can be asked for; `rules_*` decide, purely
    placement            where replicas go, purely
    rows, store          the same state as rows of a key-value store
    service, watch       the one task that applies, persists and then publishes
    client, caches       how the rest of a node sees it
"""
