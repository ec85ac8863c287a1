"""Produce: batches go to the log as they came.

| file          | what it has                                                              |
|---------------|--------------------------------------------------------------------------|
| `api.py`      | the handler: which batches go at once, which take a task, and their order |
| `checking.py` | what is checked in a batch before it is stored, where, how much of it   |
| `rules.py`    | what a topic's configs say about batches                                  |
| `answers.py`  | what a request is answered, and how its partitions come together          |
"""
