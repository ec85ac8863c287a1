"""The commands on a running node as tests run them: in this process, with all they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from stratamq.cli.main import application

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60


@dataclass(frozen=True)
class Ended:
    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@dataclass(frozen=True)
class Tool:
    """`stratamq` with variables that say where the node is."""

    env: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: object, given: str | bytes | None = None, **env: str) -> Ended:
        app = application(str(words[0]))
        done = CliRunner().invoke(
            app, list(map(str, words)), input=given, env={**CLEAN, **self.env, **env}
        )
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: object, given: str | bytes | None = None) -> Ended:
        done = self.run(*words, given=given)
        assert done.code == 0, done
        return done

    def json(self, *words: object, given: str | bytes | None = None) -> Any:
        return self.ok(*words, "--json", given=given).json

    def fails(self, code: int, *words: object, given: str | None = None) -> str:
        """What it says: one or two sentences on standard error, and nothing else."""
        done = self.run(*words, given=given)
        assert done.code == code, done
        assert done.output == ""
        assert "Traceback" not in done.errors
        return done.errors

    def process(self, *words: object) -> subprocess.Popen[bytes]:
        """The command as a process of its own, with pipes."""
        return subprocess.Popen(
            [sys.executable, "-m", "stratamq.cli", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **CLEAN, **self.env},
            preexec_fn=_obey_ctrl_c,
        )


def _obey_ctrl_c() -> None:
    """What runs in the background of a script has Ctrl-C ignored, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


CLEAN = {
    "STRATAMQ_PROFILES": os.devnull,  # not those of the person who runs the tests
    "COLUMNS": "80",
}


def requires(value: Any, shape: Any) -> None:
    """Same keys, same types: a JSON shape that people build on."""
    if isinstance(shape, dict):
        assert isinstance(value, dict)
        assert value.keys() == shape.keys()
        for name, inner in shape.items():
            requires(value[name], inner)
    elif isinstance(shape, list):
        assert isinstance(value, list)
        assert value, "a shape is seen in an element"
        for one in value:
            requires(one, shape[0])
    else:
        assert isinstance(value, shape), value
