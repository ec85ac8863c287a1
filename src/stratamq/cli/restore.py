"""`stratamq restore`: a backup into an empty data folder (docs/backup.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stratamq.cli.command import Report, as_sentences, show, with_common
from stratamq.cli.data_folder import FOLDER_FLAGS
from stratamq.cli.failing import UsageError
from stratamq.cli.progress import ProgressLine
from stratamq.cli.tables import counted, sized
from stratamq.model.config import load
from stratamq.model.errors import InvalidConfig
from stratamq.node.backup_folder import check_all, read_manifest
from stratamq.node.restore import restore


def add_restore(app: typer.Typer) -> None:
    with_common(app, "restore", FOLDER_FLAGS, run_restore)(restore_backup)


def run_restore(
    work: Callable[[Path], Report],
    *,
    as_json: bool,
    debug: bool,
    data_dir: Path | None,
    config: Path | None,
) -> None:
    with as_sentences(debug):
        try:
            flags = {} if data_dir is None else {"data.dir": str(data_dir)}
            folder = load(config, os.environ, flags).data_dir
        except InvalidConfig as error:
            raise UsageError(str(error)) from None
        show(work(folder), as_json=as_json)
        sys.stdout.flush()


def restore_backup(
    data_dir: Path,
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="The backup's folder.", show_default=False)
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Compare all checksums, and write nothing.")
    ] = False,
) -> Report:
    """Restore a backup into an empty data folder, or check that it is whole."""
    progress, done = ProgressLine(), [0]

    def on_bytes(count: int) -> None:
        done[0] += count
        progress.update(f"{'read' if check else 'restored'}: {sized(done[0])}")

    try:
        if check:
            manifest = read_manifest(backup)
            check_all(backup, manifest, on_bytes)
        else:
            manifest = restore(backup, data_dir, on_bytes)
    finally:
        progress.clear()
    taken = datetime.fromtimestamp(manifest.taken_ms / 1000, UTC).isoformat(timespec="seconds")
    size = f"{counted(len(manifest.files), 'file')}, {sized(manifest.size_bytes)}"
    lines = [f"{backup} of {taken} is whole: {size}"]
    if not check:
        lines = [
            f"{data_dir}: {size}, as of {taken}",
            f"start it with: stratamq server --data-dir {data_dir} --node-id {manifest.node_id}",
        ]
        if manifest.objects:
            lines.append(
                f"its history is in {manifest.store}: never run it on that store beside the node"
                " that the backup is of"
            )
    data = {
        "backup": str(backup),
        "data_dir": None if check else str(data_dir),
        "taken_ms": manifest.taken_ms,
        "node_id": manifest.node_id,
        "files": len(manifest.files),
        "bytes": manifest.size_bytes,
        "store": manifest.store or None,
        "objects": manifest.objects,
    }
    return Report(data, lines)
