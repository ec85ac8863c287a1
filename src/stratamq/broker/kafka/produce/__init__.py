"""Produce: batches go to the log as they came.

| file          | what it has                                                              |
|---------------|--------------------------------------------------------------------------|
| `api.py`      | the handler, and the short way of an ordinary request                     |
| `long_way.py` | requests that take a task, and their order                                |
| `checking.py` | what is checked in a batch before it is stored, and where                 |
| `rules.py`    | what a topic's configs say about batches                                  |
| `answers.py`  | what a batch is answered that is refused                                  |
"""
