"""Transactions: who may produce under a transactional id, and how its transactions end.

machine       what a request does to a transactional id, purely
producer_ids  producer ids, never the same twice
coordinator   the one place that changes transactional ids: decide, store, write the marks
verifying     may this batch be written in this transaction?
api, offsets_api, admin_api, family   the requests
"""
