"""StrataMQ's Kafka front beside Apache Kafka itself: `make bench-kafka`.

Both run at the same time on the same disk, each on its own folder, and are loaded one after the
other within each row. The one that is not loaded is idle; what that costs is measured and told.
"""
