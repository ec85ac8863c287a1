"""The answer as a picture, in four panels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from demo.question import Answer
from demo.sizes import size
from demo.tiers import TierRow

mpl.use("Agg")

PAID, UNPAID, COLD, LOCAL = "#94b8d6", "#c0392b", "#2b6cb0", "#e8973a"
STYLE = {
    "font.size": 10,
    "text.color": "#1f2933",
    "axes.edgecolor": "#cbd2d9",
    "axes.labelcolor": "#52606d",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": "#52606d",
    "ytick.color": "#1f2933",
    "legend.frameon": False,
}


def plot(answer: Answer, tiers: Sequence[TierRow], path: Path) -> None:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 7.5), layout="constrained")
        (shops, hours), (records, sizes) = figure.subplots(2, 2)
        figure.get_layout_engine().set(wspace=0.06, hspace=0.08)  # type: ignore[union-attr]
        _shops(shops, answer)
        _hours(hours, answer)
        _records(records, tiers)
        _sizes(sizes, [row for row in tiers if row.files])
        figure.savefig(path, dpi=120)


def _shops(axes: Any, answer: Answer) -> None:
    """All cups, with those that nobody paid for at the end of the bar."""
    rows = answer.by_shop[::-1]
    names = [row["shop"] for row in rows]
    paid = [row["orders"] for row in rows]
    unpaid = [row["unpaid"] for row in rows]
    axes.barh(names, paid, color=PAID, label="paid for")
    bars = axes.barh(names, unpaid, left=paid, color=UNPAID, label="not paid for")
    axes.bar_label(bars, [f" {count:,}" if count else "" for count in unpaid], color=UNPAID)
    axes.set_title("Cups brewed")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, -0.08))


def _hours(axes: Any, answer: Answer) -> None:
    rows = answer.by_hour
    axes.bar([row["hour"] for row in rows], [row["revenue"] for row in rows], color=PAID)
    axes.set_title("Revenue by hour")
    axes.set_xlabel("hour of the day, UTC")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", color="#e4e7eb")


def _records(axes: Any, tiers: Sequence[TierRow]) -> None:
    rows = tiers[::-1]
    names = [f"{row.topic}\n{row.records:,} records" for row in rows]
    cold = [row.cold_share for row in rows]
    axes.barh(names, cold, color=COLD, label="Parquet, on object storage")
    axes.barh(names, [1 - one for one in cold], left=cold, color=LOCAL, label="on the node only")
    axes.set_title("Where Spark found the records")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, -0.08))


def _sizes(axes: Any, rows: Sequence[TierRow]) -> None:
    """What moved, before and after."""
    places = range(len(rows))
    before, after = [row.moved_bytes for row in rows], [row.cold_bytes for row in rows]
    logs = axes.bar([at - 0.2 for at in places], before, 0.38, color=LOCAL, label="in the log")
    files = axes.bar([at + 0.2 for at in places], after, 0.38, color=COLD, label="as Parquet")
    axes.bar_label(logs, [size(one) for one in before])
    axes.bar_label(files, [size(one) for one in after])
    axes.set_title("Size of what moved to object storage")
    axes.set_xticks(places, [row.topic for row in rows])
    axes.yaxis.set_major_formatter(EngFormatter("B"))
    axes.margins(y=0.12)
    axes.legend(loc="upper right")
