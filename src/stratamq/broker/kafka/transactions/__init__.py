"""Transactions: who may produce under a transactional id, and how its transactions end.

machine       what a request does to a transactional id, purely
ids           producer ids, never the same twice
marking       the marks that end a transaction, written until they are
coordinator   the one place that changes transactional ids: decide, store, then act
verifying     may this batch be written in this transaction?
api, offsets_api, admin_api, family   the requests
"""
