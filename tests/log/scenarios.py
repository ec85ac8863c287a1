"""What a log lives through before a crash. `before` has happened; `during` is where it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.log.rig import Rig

Steps = Callable[[Rig], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    before: Steps
    during: Steps

    def __str__(self) -> str:
        return self.name


def nothing(rig: Rig) -> None:
    pass


def one_segment(rig: Rig) -> None:
    rig.commit(3, 1)
    rig.commit(2)


def three_segments(rig: Rig) -> None:
    """Two sealed ones with several points each, and an active one."""
    for _ in range(2):
        rig.commit(3, 1, 2)
        rig.roll()
    rig.commit(2, 2)


def epochs(rig: Rig) -> None:
    rig.commit(3, epoch=0)
    rig.commit(2, 1, epoch=2)
    rig.roll()
    rig.commit(1, epoch=3)
    rig.commit(2, epoch=7)


def create(rig: Rig) -> None:
    rig.open()
    rig.commit(2)
    rig.append(1)


def append(rig: Rig) -> None:
    rig.commit(2)
    rig.append(1, 3)
    rig.append(2)
    rig.ack()
    rig.append(1)


def append_then_roll(rig: Rig) -> None:
    """Batches that land in three segments, in one call."""
    rig.commit(6, 6, 6, 6)
    rig.append(2, 9, 9)
    rig.ack()


def roll(rig: Rig) -> None:
    rig.roll()
    rig.commit(2, 3)
    rig.append(1)
    rig.roll()
    rig.ack()


def close(rig: Rig) -> None:
    rig.append(2)
    rig.close()


def index_before_sync(rig: Rig) -> None:
    """flush=os: the index may be ahead of the log."""
    rig.append(4, 1)
    rig.log.flush_index()
    rig.append(3)
    rig.log.flush_index()
    rig.ack()
    rig.append(2)
    rig.log.flush_index()


def rewrite(rig: Rig) -> None:
    rig.rewrite(0, lambda offset: offset % 2 == 0)
    rig.rewrite(1, lambda offset: offset in (6, 7, 8))
    rig.commit(1)


def rewrite_all_away(rig: Rig) -> None:
    rig.rewrite(1, lambda offset: True)
    rig.rewrite(0, lambda offset: True)
    rig.commit(2)


def rewrite_just_sealed(rig: Rig) -> None:
    """The index may not know yet that the segment is sealed."""
    rig.commit(1, 2)
    rig.roll()
    rig.rewrite(2, lambda offset: offset % 3 == 0)
    rig.commit(2)


def delete(rig: Rig) -> None:
    rig.delete(1)
    rig.delete(7, 4)
    rig.rewrite(0, lambda offset: offset in (1, 4))
    rig.truncate(7)
    rig.commit(3)
    rig.delete(8)


def truncate_inside(rig: Rig) -> None:
    rig.truncate(14)
    rig.commit(1, 3)
    rig.append(1)


def truncate_batch(rig: Rig) -> None:
    """An end inside a batch: it goes as a whole."""
    rig.truncate(13)
    rig.commit(5)


def truncate_across(rig: Rig) -> None:
    rig.truncate(4)
    rig.commit(2, 1)
    rig.roll()
    rig.commit(9, 1)


def truncate_all(rig: Rig) -> None:
    rig.truncate(0)
    rig.commit(4, 1, 2)


def truncate_unsynced(rig: Rig) -> None:
    rig.append(2, 2)
    rig.truncate(18)
    rig.commit(3)


def truncate_at_border(rig: Rig) -> None:
    rig.truncate(12)
    rig.commit(1, 1)


def truncate_below_compacted(rig: Rig) -> None:
    """No segment is left that could be cut: one begins where the end is to be."""
    rig.rewrite(0, lambda offset: True)
    rig.truncate(3)
    rig.commit(2, 1, 4)


def truncate_into_gap(rig: Rig) -> None:
    rig.rewrite(1, lambda offset: True)
    rig.truncate(9)
    rig.commit(1, 2)


def truncate_trimmed(rig: Rig) -> None:
    """The batch that goes as a whole begins before the start of the log."""
    rig.trim(13)
    rig.truncate(13)
    rig.commit(2)


def trim(rig: Rig) -> None:
    rig.trim(2)
    rig.trim(6)
    rig.trim(13)
    rig.commit(2)


def trim_all(rig: Rig) -> None:
    rig.trim(16)
    rig.commit(1, 4)


def trim_unsynced(rig: Rig) -> None:
    rig.append(3)
    rig.trim(18)
    rig.ack()


def offload(rig: Rig) -> None:
    rig.offload(6)
    rig.commit(2)
    rig.offload(12)
    rig.commit(1, 1)


def offload_everything_sealed(rig: Rig) -> None:
    """The active segment stays, whatever is asked for."""
    rig.delete(1, 8)
    rig.offload(100)
    rig.commit(3)
    rig.roll()
    rig.offload(17)
    rig.commit(2)


def offload_then_change(rig: Rig) -> None:
    rig.offload(6)
    rig.rewrite(0, lambda offset: offset % 2 == 0)
    rig.truncate(9)
    rig.commit(2, 1)
    rig.trim(3)
    rig.commit(1)


def offload_then_truncate_all(rig: Rig) -> None:
    """Nothing is left here, and offsets go on where others end."""
    rig.offload(6)
    rig.truncate(6)
    rig.commit(4)


def offload_then_truncate_below_compacted(rig: Rig) -> None:
    rig.offload(6)
    rig.rewrite(0, lambda offset: True)
    rig.truncate(8)
    rig.commit(1, 3)


def offload_then_trim(rig: Rig) -> None:
    rig.offload(12)
    rig.trim(4)
    rig.trim(12)
    rig.trim(14)
    rig.commit(2)


def offload_then_restart(rig: Rig) -> None:
    rig.offload(12)
    rig.restart(3)
    rig.commit(4, 1, 3)


def offload_epochs(rig: Rig) -> None:
    """Which leaders wrote what others have is still known here."""
    rig.offload(6)
    rig.commit(2, epoch=8)
    rig.roll()
    rig.offload(20)
    rig.commit(1, epoch=9)


def restart_forward(rig: Rig) -> None:
    rig.restart(100)
    rig.commit(4, 1, 3)


def restart_backward(rig: Rig) -> None:
    rig.trim(6)
    rig.restart(0)
    rig.commit(1, 4, 2)


def restart_twice(rig: Rig) -> None:
    """Rows of a segment must not outlive it: another one may get its name."""
    rig.restart(50)
    rig.commit(2, 2)
    rig.restart(0)
    rig.commit(1, 1, 1, 1, 1, 1)


def new_epochs(rig: Rig) -> None:
    rig.append(1, epoch=8)
    rig.append(2, epoch=9)
    rig.ack()
    rig.commit(9, 9, epoch=10)


def change_epochs(rig: Rig) -> None:
    rig.append(1, epoch=8)
    rig.append(2, epoch=9)
    rig.ack()
    rig.truncate(7)
    rig.commit(1, 1, epoch=11)


def trim_all_then_epochs(rig: Rig) -> None:
    """An epoch that has no records left, and its successor at the same offset."""
    rig.trim(9)
    rig.commit(1, epoch=8)
    rig.truncate(9)
    rig.commit(1, epoch=9)
    rig.commit(1, epoch=12)


def epochs_across_rolls(rig: Rig) -> None:
    rig.commit(9, epoch=8)
    rig.commit(9, epoch=9)
    rig.trim(7)
    rig.commit(9, epoch=10)


SCENARIOS = (
    Scenario("create", nothing, create),
    Scenario("append", one_segment, append),
    Scenario("append over several segments", one_segment, append_then_roll),
    Scenario("roll", one_segment, roll),
    Scenario("close", one_segment, close),
    Scenario("index before sync", one_segment, index_before_sync),
    Scenario("rewrite", three_segments, rewrite),
    Scenario("rewrite all away", three_segments, rewrite_all_away),
    Scenario("rewrite just sealed", three_segments, rewrite_just_sealed),
    Scenario("delete", three_segments, delete),
    Scenario("truncate inside", three_segments, truncate_inside),
    Scenario("truncate a batch", three_segments, truncate_batch),
    Scenario("truncate across segments", three_segments, truncate_across),
    Scenario("truncate all", three_segments, truncate_all),
    Scenario("truncate unsynced", three_segments, truncate_unsynced),
    Scenario("truncate at a border", three_segments, truncate_at_border),
    Scenario("truncate below compacted", three_segments, truncate_below_compacted),
    Scenario("truncate into a gap", three_segments, truncate_into_gap),
    Scenario("truncate trimmed", three_segments, truncate_trimmed),
    Scenario("trim", three_segments, trim),
    Scenario("trim all", three_segments, trim_all),
    Scenario("trim unsynced", three_segments, trim_unsynced),
    Scenario("offload", three_segments, offload),
    Scenario("offload everything sealed", three_segments, offload_everything_sealed),
    Scenario("offload, then change", three_segments, offload_then_change),
    Scenario("offload, then truncate all", three_segments, offload_then_truncate_all),
    Scenario(
        "offload, then truncate below compacted",
        three_segments,
        offload_then_truncate_below_compacted,
    ),
    Scenario("offload, then trim", three_segments, offload_then_trim),
    Scenario("offload, then restart", three_segments, offload_then_restart),
    Scenario("offload epochs", epochs, offload_epochs),
    Scenario("restart forward", three_segments, restart_forward),
    Scenario("restart backward", three_segments, restart_backward),
    Scenario("restart twice", three_segments, restart_twice),
    Scenario("new epochs", epochs, new_epochs),
    Scenario("change epochs", epochs, change_epochs),
    Scenario("trim all, then epochs", epochs, trim_all_then_epochs),
    Scenario("epochs across rolls", epochs, epochs_across_rolls),
)
