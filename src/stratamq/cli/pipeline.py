"""`stratamq pipeline`: Spark's declarative pipelines over topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from stratamq.cli.failing import EXIT_USAGE, fail
from stratamq.cli.help import PlainCommand
from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.pipelines.project import init, spec_of

pipeline_app = typer.Typer(
    help="Spark's declarative pipelines over topics.", no_args_is_help=True, rich_markup_mode=None
)

SERVERS = "localhost:9092"

Place = Annotated[Path, typer.Argument(help="The project's folder, or its spec file.")]
Servers = Annotated[
    str | None, typer.Option(help="Nodes, host:port; the project's own without it.")
]
Master = Annotated[
    str, typer.Option(help="Where tasks run: local[2], spark://host:port, yarn, k8s://…")
]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server, sc://host:port.")]
Refresh = Annotated[bool, typer.Option("--full-refresh", help="Begin again: empty all tables.")]
S3 = Annotated[bool, typer.Option("--s3", help="History is in S3: bring hadoop-aws.")]
Conf = Annotated[list[str] | None, typer.Option(help="A setting of Spark: name=value.")]


@pipeline_app.command("init", cls=PlainCommand)
def init_project(
    name: Annotated[str, typer.Argument(help="What it is called, and its folder.")],
    servers: Annotated[str, typer.Option(help="Nodes, host:port,host:port.")] = SERVERS,
) -> None:
    """Write a small working project: topic, cleaned table, totals, and back to a topic."""
    try:
        written = init(name, Path.cwd(), servers)
    except (StrataError, OSError) as error:
        raise fail(error) from None
    for path in written:
        typer.echo(f"  {path.relative_to(Path.cwd())}")
    typer.echo(f"cd {name}; python sample.py; stratamq pipeline run")


@pipeline_app.command("run", cls=PlainCommand)
def run_project(
    place: Place = Path(),
    servers: Servers = None,
    master: Master = "local[*]",
    remote: Remote = None,
    full_refresh: Refresh = False,
    s3: S3 = False,
    conf: Conf = None,
) -> None:
    """Run all steps once, over all data that is there."""
    console = Console()
    try:
        running = load("stratamq.pipelines.running")
        options = running.RunOptions(
            master=master,
            remote=remote,
            servers=servers,
            full_refresh=full_refresh,
            s3=s3,
            settings=settings_of(conf or ()),
        )
        with _shown(console) as on_change:
            steps = running.run(spec_of(place), options, on_change)
    except InvalidConfig as error:
        raise fail(error, EXIT_USAGE) from None
    except (StrataError, OSError) as error:
        raise fail(error) from None
    console.print(_table(steps))


def load(module: str) -> ModuleType:
    """By name, and when it is needed: it stands on Spark."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"pipelines need {error.name}, which is not installed: "
            "pip install 'stratamq[lake,spark]'"
        ) from None


def settings_of(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise InvalidConfig(f"--conf takes name=value, not {one!r}")
        found[name] = value
    return found


def _table(steps: Iterable[Any]) -> Table:
    table = Table("step", "state", "rows", "lag", box=None, header_style="bold")
    table.columns[2].justify = table.columns[3].justify = "right"
    for step in steps:
        table.add_row(step.name, step.state.lower(), _number(step.rows), _number(step.lag))
    return table


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


@contextmanager
def _shown(console: Console) -> Iterator[Callable[[Any], None]]:
    """A bar for each step on a terminal, else a line for each change."""
    if not console.is_terminal:
        yield lambda step: console.print(
            f"{step.name}: {step.state.lower()}"
            + (f", {step.rows:,} rows" if step.rows is not None else "")
            + (f", lag {step.lag:,}" if step.lag is not None else ""),
            highlight=False,
        )
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows  {task.fields[state]}"),
        console=console,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}
    start = bars.add_task("Spark", total=None, state="starting")

    def change(step: Any) -> None:
        bars.update(start, visible=False)
        if step.name not in tasks:
            tasks[step.name] = bars.add_task(step.name, total=None, state="")
        done = step.rows or 0
        total = done + (step.lag or 0)
        known = total if step.rows is not None or step.is_done else None
        bars.update(tasks[step.name], completed=done, total=known, state=step.state.lower())

    with bars:
        yield change
