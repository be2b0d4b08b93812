"""Which columns a pool has, and how they lie in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from blockmgr.core.geometry import PoolGeometry

PAGE = 4096


class Moment(IntEnum):
    """When, within a transaction, the changes of a column are applied."""

    FIRST = 0
    BETWEEN = 1
    LAST = 2


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Name, element type, number of rows, elements of a row (1: a plain column), and when changes are applied."""

    name: str
    dtype: str
    rows: int
    width: int = 1
    applied: Moment = Moment.BETWEEN

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def stride(self) -> int:
        """Elements from one row to the next. Wide rows start on a page, so that a released row's memory can be given back."""
        nbytes = self.width * self.itemsize
        return -(-nbytes // PAGE) * PAGE // self.itemsize if nbytes >= PAGE else self.width

    @property
    def nbytes(self) -> int:
        """Bytes of the whole column."""
        return self.rows * self.stride * self.itemsize


def pool_schema(g: PoolGeometry) -> tuple[ColumnSpec, ...]:
    """Every column of a pool.

    Live readers rely on when a transaction applies changes: a tenancy rises before anything else of its row changes, and
    the token count rises after the tokens are there; so whoever reads tenancy, count, tokens, tenancy again has seen one
    moment or notices.
    """
    blocks, slots, executors = g.total_blocks, g.max_sequences, g.max_executors
    return (
        ColumnSpec("slot.tenancy", "i8", slots, applied=Moment.FIRST),
        *(
            ColumnSpec(f"pool.{name}", "i8", 1)
            for name in ("clock", "revision", "epoch", "serial", "capacity", "drain", "zeroed")
        ),
        ColumnSpec("pool.content", "V16", 1),
        ColumnSpec("pool.description", "u1", 1, 4095),
        ColumnSpec("block.generation", "i8", blocks),
        ColumnSpec("block.hash", "V16", blocks),
        ColumnSpec("block.parent", "V16", blocks),
        ColumnSpec("block.tokens", "i4", blocks, g.tokens_per_block),
        ColumnSpec("block.filler", "i4", blocks),
        ColumnSpec("block.step", "i8", blocks),
        ColumnSpec("block.used", "i8", blocks),
        ColumnSpec("block.fence", "i8", blocks),
        ColumnSpec("block.indexed", "u1", blocks),
        ColumnSpec("block.refs", "i4", blocks),
        ColumnSpec("block.state", "u1", blocks),
        ColumnSpec("slot.tokens", "i4", slots, g.max_length),
        ColumnSpec("slot.logprobs", "f4", slots, g.max_length),
        ColumnSpec("slot.table", "i4", slots, g.max_table),
        ColumnSpec("slot.request", "u1", slots, max(g.request_bytes, 1)),
        *(ColumnSpec(f"slot.{name}", "V16", slots) for name in ("uuid", "caller", "body", "root")),
        *(ColumnSpec(f"slot.{name}", "f8", slots) for name in ("score", "created")),
        *(
            ColumnSpec(f"slot.{name}", "i8", slots)
            for name in (
                "request_length",
                "owner",
                "epoch",
                "priority",
                "flags",
                "family",
                "attachment",
                "deaths",
                "death_count",
                "cancel",
                "final",
                "residency",
                "prompt",
                "blocks",
                "launched",
                "computed",
                "published",
                "state",
            )
        ),
        ColumnSpec("slot.count", "i8", slots, applied=Moment.LAST),
        *(ColumnSpec(f"ticket.{name}", "i8", blocks) for name in ("id", "handle", "index", "source", "executor")),
        ColumnSpec("ticket.kind", "u1", blocks),
        ColumnSpec("executor.name", "V64", executors),
        ColumnSpec("executor.instance", "V16", executors),
        ColumnSpec("executor.pids", "i8", executors, 64),
        *(
            ColumnSpec(f"executor.{name}", "i8", executors)
            for name in ("epoch", "launched", "completed", "solo", "drain", "registered", "orphaned", "state")
        ),
        ColumnSpec("executor.lease", "f8", executors),
        ColumnSpec("executor.reply", "u1", executors, g.reply_bytes),
        ColumnSpec("executor.reply_length", "i8", executors),
        ColumnSpec("executor.number", "i8", executors),
        ColumnSpec("pin.label", "V64", g.max_pins),
        ColumnSpec("pin.expires", "f8", g.max_pins),
        ColumnSpec("pin.generation", "i8", g.max_pins),
        ColumnSpec("pin.block", "i8", g.max_pins),
        ColumnSpec("pin.id", "i8", g.max_pins),
        ColumnSpec("archive.bytes", "u1", 1, g.archive_bytes),
        *(ColumnSpec(f"archive.{name}", "i8", g.archive_rows) for name in ("offset", "length")),
        ColumnSpec("archive.finished", "f8", g.archive_rows),
        ColumnSpec("archive.uuid", "V16", g.archive_rows),
        ColumnSpec("archive.family", "i8", g.archive_rows),
        *(ColumnSpec(f"archive.{name}", "i8", 1) for name in ("head", "tail", "cursor")),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """Where columns lie in one piece of memory: each one's offset in bytes, on a page, and where the last one ends."""

    offsets: tuple[int, ...]
    end: int


def lay_out(schema: Sequence[ColumnSpec]) -> Layout:
    """Put columns one behind the other. The first page is left to whoever keeps them."""
    at, offsets = PAGE, []
    for spec in schema:
        offsets.append(at)
        at = pages(at + spec.nbytes)
    return Layout(tuple(offsets), at)


def pages(nbytes: int) -> int:
    """``nbytes`` rounded up to whole pages."""
    return -(-nbytes // PAGE) * PAGE
