"""Rules for all tests.

`@pytest.mark.needs("kcat", "java")` says which outside programs a test talks to. Without one of
them the test is skipped and the summary says why; with CI=true it fails, since a machine that
checks every change must be able to check all of it.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from stratamq.cli.java import JAVA_MAJOR_MIN, java_major

pytest_plugins = ["pytester"]

# Two busy cores make any single example slow now and then; pytest-timeout guards against hanging.
# A machine that checks every change draws the same examples each time, so that a change is judged
# by what it changed; everybody else draws new ones.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = [name for name in wanted if not is_there(name)]
    if not missing:
        return
    reason = f"needs {', '.join(missing)}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}: with CI=true nothing is skipped", pytrace=False)
    pytest.skip(reason)


def is_there(program: str) -> bool:
    if program == "java":
        return (java_major() or 0) >= JAVA_MAJOR_MIN
    return shutil.which(program) is not None


TOGETHER = {
    "tests/spark/": "a JVM",
    "tests/spark_union/": "a JVM",
    "tests/pipelines/": "a JVM",
    "tests/spark_cluster/": "a cluster",
}
"""Folders whose tests share something: in one worker, or each worker would start its own."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By folder and not by `xdist_group`, whose marks xdist 3.8 loses with pytest 9.2: it writes
    them behind the ids of tests, which cannot be changed any more."""
    from xdist.scheduler import LoadScopeScheduling

    class OneJvm(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            shared = (what for folder, what in TOGETHER.items() if nodeid.startswith(folder))
            return next(shared, nodeid)

    return OneJvm(config, log) if config.getvalue("dist") == "loadgroup" else None
