"""A run of a pipeline, from its spec to the last step."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.pipelines.cli import PipelineSpec, load_pipeline_spec, register_definitions
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.spark_connect_graph_element_registry import (
    SparkConnectGraphElementRegistry,
)
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.pipelines.culprit import Culprit, find
from stratamq.pipelines.session import connect
from stratamq.pipelines.steps import PipelineStep, PipelineSteps, reason, short
from stratamq.spark.positions import lag
from stratamq.spark.submit import packages
from stratamq.spark.union.reading import SERVERS_CONF

COUNTED = "UNKNOWN_RESPONSE"

OnChange = Callable[[PipelineStep], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    master: str = "local[*]"
    remote: str | None = None
    servers: str | None = None
    full_refresh: bool = False
    s3: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


class StepFailed(StrataError):
    """A step could not go on."""

    def __init__(self, step: str, why: str, culprit: Culprit | None) -> None:
        where = f" at {culprit}" if culprit else ""
        super().__init__(f"step {step} failed{where}: {why}")
        self.step, self.culprit = step, culprit


def run(
    spec_path: Path, options: RunOptions, on_change: OnChange = lambda step: None
) -> PipelineSteps:
    """Run all steps once, over the records there are. StepFailed names the first that failed."""
    spec = _spec(spec_path)
    own = {SERVERS_CONF: options.servers} if options.servers else {}
    settings = {**spec.configuration, **own}
    asked = {**settings, **options.settings}
    if options.s3 and options.remote:
        raise InvalidConfig("--s3 is for a driver of its own: a server has the jars it has")
    session = connect(
        spec_path.parent,
        master=options.master,
        remote=options.remote,
        settings={**asked, **packages(s3=options.s3, kafka=False).settings(asked)},
    )
    try:
        return _PipelineRun(session, spec_path, spec, settings, on_change).all(options.full_refresh)
    except PySparkException as error:
        raise StrataError(f"{spec.name}: {_first_line(error)}") from None
    finally:
        with contextlib.redirect_stderr(io.StringIO()):
            session.stop()


def _spec(path: Path) -> PipelineSpec:
    try:
        return load_pipeline_spec(path)
    except (PySparkException, AttributeError, KeyError, TypeError) as error:
        raise InvalidConfig(f"{path}: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return reason(f"Error: {error}") or type(error).__name__


class _Flows(SparkConnectGraphElementRegistry):
    """Remembers the flows' functions: a failed one is asked again, with less to read."""

    def __init__(self, spark: SparkSession, graph: str) -> None:
        super().__init__(spark, graph)
        self.found: dict[str, Flow] = {}

    def register_flow(self, flow: Flow) -> None:
        self.found[short(flow.name)] = flow
        super().register_flow(flow)


class _PipelineRun:
    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        spec: PipelineSpec,
        settings: Mapping[str, str],
        on_change: OnChange,
    ) -> None:
        self._spark, self._path, self._spec = spark, path, spec
        self._settings, self._on_change = settings, on_change
        self._steps = PipelineSteps()
        self._said: dict[str, str] = {}

    def all(self, full_refresh: bool) -> PipelineSteps:
        graph = create_dataflow_graph(
            self._spark, self._spec.catalog, self._spec.database, dict(self._settings)
        )
        flows = _Flows(self._spark, graph)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints which files it reads
            register_definitions(self._path, flows, self._spec, self._spark, graph)
        with _listening(self._spark, self._steps, self._on_change):
            error = self._follow(graph, full_refresh)
        for step in self._steps.failed if error is None else self._steps.suspects:
            raise StepFailed(step.name, step.error, self._culprit(flows.found.get(step.name)))
        if error is not None:
            raise error
        self._count_tables()
        return self._steps

    def _follow(self, graph: str, full_refresh: bool) -> PySparkException | None:
        """Yield all events; a step that fails ends them with an error."""
        events = start_run(
            self._spark,
            graph,
            full_refresh=[],
            full_refresh_all=full_refresh,
            refresh=[],
            dry=False,
            storage=self._spec.storage,
        )
        try:
            for message in _messages(events):
                step = self._steps.note(message)
                if step is not None:
                    self._said[step.name] = message
                    self._on_change(step)
        except PySparkException as error:
            # After the last event comes what Python workers counted, which PySpark does not know.
            is_over = error.getCondition() == COUNTED and all(step.is_done for step in self._steps)
            return None if is_over else error
        return None

    def _culprit(self, flow: Flow | None) -> Culprit | None:
        if flow is None:
            return None
        return find(self._spark, flow.func, self._said.get(short(flow.name), ""))

    def _count_tables(self) -> None:
        for step in list(self._steps):
            if step.rows is None and step.state == "COMPLETED":
                with contextlib.suppress(PySparkException):  # a view, or nothing at all
                    self._steps.count(step.name, self._spark.table(step.name).count())


def _messages(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    for one in events:
        if "pipeline_event_result" in one:
            yield cast(str, one["pipeline_event_result"].event.message)


class _Listener(StreamingQueryListener):
    def __init__(self, steps: PipelineSteps, on_change: OnChange) -> None:
        self._steps, self._on_change = steps, on_change

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        behind = lag(json.loads(progress.json))
        self._steps.progress(
            progress.name or "", progress.numInputRows, sum(behind.values()) if behind else None
        )
        for step in self._steps:
            if step.name == short(progress.name or ""):
                self._on_change(step)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


@contextlib.contextmanager
def _listening(spark: SparkSession, steps: PipelineSteps, on_change: OnChange) -> Iterator[None]:
    listener = _Listener(steps, on_change)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        spark.streams.removeListener(listener)
