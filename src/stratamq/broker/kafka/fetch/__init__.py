"""Fetch: batches go out as they are stored, as soon as there are enough of them.

| file          | what it has                                                              |
|---------------|--------------------------------------------------------------------------|
| `api.py`      | the handler: sessions, the first look, the response                       |
| `reading.py`  | one pass over the partitions of a request: who stands where, who is read  |
| `waiting.py`  | a request that has not found enough: what wakes it, when it reads again   |
| `sessions.py` | incremental fetches: what a client asked for before, and its last answers |
| `cold.py`     | reads that wait for object storage                                        |
"""

from stratamq.broker.kafka.fetch.api import Fetch

__all__ = ["Fetch"]
