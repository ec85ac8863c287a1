"""Records that are gone before they were read, or after they were written.

`failOnDataLoss` decides: `true` ends the query with an error that says what is gone, `false` says
the same in the log and goes on. Nothing is passed over in silence.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from stratamq.client import TopicPartition
from stratamq.model.errors import OffsetOutOfRange, StrataError, TopicRecreated

logger = logging.getLogger(__name__)
WARNINGS_MAX = 256


class DataLoss(OffsetOutOfRange):
    """Records that should have been read are gone."""

    def __init__(self, place: TopicPartition, offset: int, start: int, end: int) -> None:
        super().__init__(str(place), offset, start, end)
        self.args = (
            f"{place}: offset {offset} was to be read, but the log has {start} to {end}: retention "
            "or a new topic of the same name took it (failOnDataLoss=false goes on without)",
        )


def recreated(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> list[TopicRecreated]:
    """One for each topic that has another id now. What has no id is not compared."""
    return [
        TopicRecreated(name, topic_id, now[name])
        for name, topic_id in sorted(before.items())
        if name in now and now[name] != topic_id
    ]


@dataclass(frozen=True, slots=True)
class Losses:
    """What a query does about them."""

    fatal: bool = True

    def accept(self, error: StrataError, instead: str) -> None:
        """`instead` says what a query does that goes on."""
        if self.fatal:
            error.args = (f"{error} (failOnDataLoss=false {instead})",)
            raise error
        warn_once(f"{error}: the query {instead}")


@functools.lru_cache(WARNINGS_MAX)
def warn_once(text: str) -> None:
    """Spark asks a hundred times a second where a stream stands: a line for each is no help."""
    logger.warning(text)
