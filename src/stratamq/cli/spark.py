"""`stratamq spark`: plain PySpark jobs over topics."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from stratamq.cli.failing import EXIT_USAGE, fail
from stratamq.cli.help import PlainCommand
from stratamq.cli.pipeline import S3, Conf, Master, load, settings_of
from stratamq.model.errors import InvalidConfig, StrataError

spark_app = typer.Typer(
    help="Plain PySpark jobs over topics.", no_args_is_help=True, rich_markup_mode=None
)

PASS_ON = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@spark_app.callback()
def spark() -> None:
    """Plain PySpark jobs over topics."""


@spark_app.command("submit", cls=PlainCommand, context_settings=PASS_ON)
def submit(
    job: Annotated[Path, typer.Argument(help="The job: a Python file.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Handed to the job.")] = None,
    master: Master = "local[*]",
    servers: Annotated[
        str | None, typer.Option(help="Nodes; the job finds them as spark.stratamq.servers.")
    ] = None,
    s3: S3 = False,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="The job uses format('kafka'): bring its jars.")
    ] = False,
    conf: Conf = None,
) -> None:
    """Run a job with the jars, the settings and the Python it needs."""
    try:
        made = load("stratamq.spark.submit")
        asked = made.Submission(
            job=job,
            arguments=arguments or (),
            master=master,
            servers=servers,
            s3=s3,
            kafka=kafka,
            settings=settings_of(conf or ()),
        )
        load("stratamq.spark.machine").check_java()
        load("stratamq.spark.machine").check_master(master)
        words, environment = made.command(asked), made.environment(os.environ)
    except InvalidConfig as error:
        raise fail(error, EXIT_USAGE) from None
    except StrataError as error:
        raise fail(error) from None
    raise SystemExit(subprocess.run(words, env=environment).returncode)
