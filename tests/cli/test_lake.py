"""`stratamq lake`: what it makes of a node's answers. A node itself: tests/tiering/node."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from stratamq.cli.lake import as_json, lake_app, packed, row, underway
from stratamq.cli.tables import columns, sized
from stratamq.model.errors import NotFound
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition


def file(base: int, end: int, *, final: bool = True, pending: bool = False) -> LakeFile:
    return LakeFile(
        base_offset=base,
        end_offset=end,
        final=final,
        parquet_key="k",
        parquet_size=300,
        rows=end - base,
        min_timestamp=0,
        max_timestamp=1,
        log_bytes=1000,
        unparsed=2,
        pending=pending,
    )


def lake(*files: LakeFile, **more: object) -> DescribedLake:
    part = LakePartition(
        partition_index=0,
        start_offset=0,
        local_start_offset=100,
        high_watermark=200,
        last_stable_offset=200,
        local_bytes=5000,
        files=files,
        **more,  # type: ignore[arg-type]
    )
    return DescribedLake(name="orders", store_url="file:///x", table="s.orders", partitions=[part])


def test_a_row_tells_where_a_topic_is() -> None:
    shown = row(lake(file(0, 100), file(100, 150, final=False)))
    assert shown == (
        *("orders", "5.0 KB", "1.0 KB", "600 B", "0.30"),
        *("2", "150", "0", "4", "s.orders (75% of it)"),
    )


def test_what_the_table_does_not_show_yet_is_pending() -> None:
    written = lake(file(0, 100), file(100, 150, final=False, pending=True))
    assert row(written)[4:] == ("0.30", "1", "100", "50", "4", "s.orders (50% of it)")
    found = as_json(written)
    assert (found["files"], found["rows"]) == (1, 100)
    assert (found["pending_files"], found["pending_rows"]) == (1, 50)


def test_status_and_cost_have_one_ratio() -> None:
    early = LakeFile(
        base_offset=100,
        end_offset=150,
        final=False,
        parquet_key="e",
        parquet_size=900,
        rows=50,
        min_timestamp=0,
        max_timestamp=1,
        log_bytes=1000,
    )
    written = lake(file(0, 100), early)
    assert as_json(written)["ratio"] == packed([written]) == 0.3


def test_an_empty_topic_has_a_row() -> None:
    assert row(DescribedLake(name="new"))[4:] == ("-", "0", "0", "0", "0", "- (empty)")


def test_the_compression_is_that_of_segments_that_were_moved() -> None:
    assert packed([lake(file(0, 100), file(100, 150, final=False))]) == 0.3


def test_without_any_it_has_to_be_said() -> None:
    with pytest.raises(NotFound, match="give --ratio"):
        packed([lake(file(0, 50, final=False))])


def test_json_of_a_topic_has_a_stable_shape() -> None:
    moving = lake(file(0, 100), moving="upload", moving_done=1500, moving_total=3000)
    assert as_json(moving) == {
        "topic": "orders",
        "local_bytes": 5000,
        "moved_bytes": 1000,
        "stored_bytes": 300,
        "ratio": 0.3,
        "files": 1,
        "rows": 100,
        "pending_files": 0,
        "pending_rows": 0,
        "unparsed": 2,
        "table": "s.orders",
        "trouble": None,
        "moving": [
            {"partition": 0, "step": "upload", "done_bytes": 1500, "total_bytes": 3000},
        ],
    }


def test_what_is_moving_is_shown() -> None:
    moving = lake(moving="upload", moving_done=1500, moving_total=3000)
    moving.trouble = "the store is away"
    assert underway([moving]) == [
        "moving: orders-0, upload, 1.5 KB of 3.0 KB",
        "trouble: the store is away",
    ]


def test_the_cost_comes_with_its_formula() -> None:
    words = ["cost", "--gb-per-day", "100", "--ratio", "0.5", "--local-days", "5", "--days", "105"]
    rates = ["--local-rate", "0.1", "--store-rate", "0.02", "--replicas", "2"]
    told = CliRunner().invoke(lake_app, [*words, *rates])
    assert told.exit_code == 0, told.output
    assert "= 25,200" in told.output  # 100 * 105 * 2 * 0.1 * 12
    assert "= 1,200" in told.output  # 100 * 5 * 2 * 0.1 * 12, and 100 * 100 * 0.5 * 0.02 * 12
    assert "= 2,400, which saves 90%" in told.output


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["status", "--servers", "localhost:x"], "port must be a number"),
        (["status", "--property", "user"], "takes name=value"),
        (["cost", "--ratio", "-1"], "Invalid value"),
    ],
)
def test_a_slip_is_one_sentence(words: list[str], wrong: str) -> None:
    told = CliRunner().invoke(lake_app, words)
    assert told.exit_code == 2
    assert wrong in told.output
    assert "Traceback" not in told.output


def test_a_node_that_is_not_there_is_one_sentence() -> None:
    words = ["status", "--servers", "127.0.0.1:1", "--property", "retry.ms=1"]
    told = CliRunner().invoke(lake_app, words)
    assert told.exit_code == 3
    assert told.output.startswith("stratamq: ")
    assert len(told.output.splitlines()) == 2


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (2.5e15, "2500.0 TB")]
)
def test_sizes(count: float, text: str) -> None:
    assert sized(count) == text


def test_columns_are_as_wide_as_they_need() -> None:
    assert columns([("a", "bb"), ("ccc", "d")]) == ["a    bb", "ccc  d"]
