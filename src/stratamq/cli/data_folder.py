"""Commands on a data folder, with or without a node running on it. They only read.

@on_folder(segment_app, "list")
def list_segments(inspection: Inspection, topics: Topics = None) -> Report: ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from stratamq.cli.command import DEBUG, JSON, F, Report, as_sentences, show, with_common
from stratamq.cli.failing import UsageError
from stratamq.engine.layout import stored_shards
from stratamq.engine.segment.folders import TOPICS_SHARD
from stratamq.log.disk import ReadOnlyDisk
from stratamq.meta.state import MetaState
from stratamq.meta.store import read_state
from stratamq.meta.tier.files import TierFile
from stratamq.model.config import load
from stratamq.model.errors import InvalidConfig, NotFound, StorageError
from stratamq.model.shard import split_shard_name
from stratamq.model.types import ShardName
from stratamq.node.layout import META_FOLDER
from stratamq.node.server import is_in_use

ATTEMPTS_MAX = 5
"""A running node replaces files of its metadata while they are opened: then they are read again."""

FOLDER_PANEL = "Data folder"
FOLDER_FLAGS: dict[str, tuple[object, object]] = {
    "as_json": (JSON, False),
    "debug": (DEBUG, False),
    "data_dir": (
        Annotated[
            Path | None,
            typer.Option(
                "--data-dir",
                metavar="FOLDER",
                help="The node's data folder. Default: as `stratamq server` would have it.",
                rich_help_panel=FOLDER_PANEL,
                show_default=False,
            ),
        ],
        None,
    ),
    "config": (
        Annotated[
            Path | None,
            typer.Option(
                "--config",
                metavar="FILE",
                help="The node's TOML file, which names the folder.",
                rich_help_panel=FOLDER_PANEL,
                show_default=False,
            ),
        ],
        None,
    ),
}
Topics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC...", help="Topics, or ids of shards. Default: all.", show_default=False
    ),
]
Partition = Annotated[
    int | None,
    typer.Option("--partition", "-p", min=0, help="Only this one.", show_default=False),
]


class FolderShard(NamedTuple):
    """A shard that the folder or its metadata has. What is not known is None: without metadata the
    topic and the history, without segment files (of another storage) the folder."""

    name: ShardName
    topic: str | None
    partition: int | None
    storage: str | None
    folder: Path | None
    history: tuple[TierFile, ...] | None

    @property
    def title(self) -> str:
        return self.name if self.topic is None else f"{self.topic}-{self.partition}"


class Inspection:
    """A data folder that is looked at. `metadata` is None when it cannot be read."""

    def __init__(self, folder: Path, *, as_json: bool) -> None:
        self.folder, self.as_json = folder, as_json
        if not folder.is_dir():
            raise NotFound(f"there is no folder {folder}: name a node's by --data-dir")
        self.is_running = is_in_use(folder)
        self.metadata = self._read_metadata()

    def _read_metadata(self) -> MetaState | None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return read_state(self.folder / META_FOLDER)
            except (OSError, StorageError) as error:
                if attempt == ATTEMPTS_MAX or not self.is_running:
                    sys.stderr.write(
                        f"stratamq: the metadata cannot be read ({error}); shards have no names\n"
                    )
                    return None
        return None

    def shards(
        self, wanted: Sequence[str] | None, partition: int | None = None
    ) -> list[FolderShard]:
        """Those of the topics and ids that are wanted, by name. NotFound names the first of which
        there is none."""
        found = self._all_shards()
        for name in wanted or ():
            if not any(name in (one.topic, one.name) for one in found):
                raise NotFound(f"{self.folder} has no topic or shard {name!r}")
        chosen = [
            one
            for one in found
            if (not wanted or one.topic in wanted or one.name in wanted)
            and partition in (None, one.partition)
        ]
        if wanted and not chosen:
            raise NotFound(f"{', '.join(wanted)}: there is no partition {partition}")
        return chosen

    def _all_shards(self) -> list[FolderShard]:
        is_shard = TOPICS_SHARD.fullmatch
        paths = stored_shards(ReadOnlyDisk(), self.folder, lambda name: bool(is_shard(name)))
        folders = {ShardName(path.name): path for path in paths if is_shard(path.name)}
        known: Iterable[ShardName] = () if self.metadata is None else self.metadata.shards
        shards = [self._shard(name, folders.get(name)) for name in {*folders, *known}]
        return sorted(shards, key=lambda one: (one.topic or "", one.partition or 0, one.name))

    def _shard(self, name: ShardName, folder: Path | None) -> FolderShard:
        state, (topic_id, partition) = self.metadata, split_shard_name(name)
        topic = None if state is None else state.topics.get(topic_id)
        if state is None or topic is None:
            return FolderShard(name, None, partition, None, folder, None)
        storage = topic.topic.config.storage_name
        return FolderShard(name, topic.topic.name, partition, storage, folder, state.files_of(name))


Inspect = Callable[[Inspection], Report | None]


def on_folder(app: typer.Typer, name: str, **settings: Any) -> Callable[[F], F]:
    """Make a function a command of `app`, with the flags of all commands on a data folder."""
    return with_common(app, name, FOLDER_FLAGS, run_on_folder, **settings)


def run_on_folder(
    work: Inspect, *, as_json: bool, debug: bool, data_dir: Path | None, config: Path | None
) -> None:
    with as_sentences(debug):
        try:
            flags = {} if data_dir is None else {"data.dir": str(data_dir)}
            folder = load(config, os.environ, flags).data_dir
        except InvalidConfig as error:
            raise UsageError(str(error)) from None
        report = work(Inspection(folder, as_json=as_json))
        if report is not None:
            show(report, as_json=as_json)
        sys.stdout.flush()
