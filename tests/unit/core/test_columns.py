"""The working copy: what a transaction changed reaches the ledger in the order that readers rely on, or is undone."""

import numpy as np
import pytest

from blockmgr.core.columns import Change, Columns
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import Moment, lay_out, pool_schema
from tests.unit.core.memory_ledger import MemoryLedger

GEOMETRY = PoolGeometry(
    4, 1, 12, host_blocks=2, max_sequences=6, max_length=2048, request_bytes=64, reply_bytes=4096, archive_bytes=4096
)


class Watched(MemoryLedger):
    """Keeps the changes of the last commit."""

    def commit(self, changes: list[Change]) -> None:
        self.changes = changes
        super().commit(changes)


def columns_on(ledger: MemoryLedger) -> Columns:
    return Columns(GEOMETRY, ledger)


def touched(columns: Columns, change: Change) -> set[str]:
    """Names of the columns in which a change lies."""
    places = change.indexes
    if places is None:
        places = np.arange(change.start, change.start + len(change.values))
    at = places * change.width
    offsets = lay_out(pool_schema(GEOMETRY)).offsets
    return {columns.ordered[int(np.searchsorted(offsets, place, side="right")) - 1].spec.name for place in at.tolist()}


def test_a_tenancy_is_applied_before_and_a_count_after_everything_else() -> None:
    ledger = Watched(GEOMETRY)
    columns = columns_on(ledger)
    columns["slot.count"].put(2, 5)
    columns["slot.launched"].scatter(np.array([1, 2]), 7)
    columns["slot.tokens"].write(2, 0, np.arange(5))
    columns["block.hash"].put(3, np.void(b"h" * 16))
    columns["block.state"].put(3, 2)
    columns["slot.tenancy"].put(2, 9)
    assert columns.commit()
    order = [touched(columns, change) for change in ledger.changes]
    assert order[0] == {"slot.tenancy"}
    assert order[-1] == {"slot.count"}
    assert set.union(*order[1:-1]) == {"slot.launched", "slot.tokens", "block.hash", "block.state"}


def test_only_tenancies_and_counts_have_a_moment_of_their_own() -> None:
    schema = pool_schema(GEOMETRY)
    assert {spec.name: spec.applied for spec in schema if spec.applied != Moment.BETWEEN} == {
        "slot.tenancy": Moment.FIRST,
        "slot.count": Moment.LAST,
    }


def test_what_is_committed_is_in_the_ledger_whatever_the_way_it_was_written() -> None:
    ledger = MemoryLedger(GEOMETRY)
    columns = columns_on(ledger)
    columns["slot.score"].put(1, -0.5)
    columns["slot.score"].scatter(np.array([3, 4]), np.array([1.5, 2.5]))
    columns["slot.logprobs"].write(2, 3, np.array([-1.0, -2.0], dtype=np.float32))
    columns["executor.name"].put(1, np.void(b"n" * 64))
    columns["slot.score"].put(3, 9.0)
    columns.commit()
    for column, committed in zip(columns.ordered, ledger.columns, strict=True):
        assert column.flat.tobytes() == committed.tobytes(), column.spec.name
    assert columns["slot.score"].flat.tolist() == [0.0, -0.5, 0.0, 9.0, 2.5, 0.0]


def test_a_rollback_takes_back_everything_since_the_last_commit() -> None:
    ledger = MemoryLedger(GEOMETRY)
    columns = columns_on(ledger)
    columns["slot.tokens"].write(1, 0, np.arange(8))
    columns["slot.owner"].put(1, 3)
    columns["slot.uuid"].put(1, np.void(b"u" * 16))
    columns.commit()
    before = [column.flat.copy() for column in columns.ordered]
    columns["slot.tokens"].write(1, 4, np.full(8, 99))
    columns["slot.owner"].scatter(np.arange(6), 5)
    columns["slot.uuid"].put(1, np.void(b"v" * 16))
    columns["slot.final"].put(5, 8)
    columns.rollback()
    for column, old in zip(columns.ordered, before, strict=True):
        assert np.array_equal(column.flat, old), column.spec.name
    assert not columns.commit(), "nothing is left to commit"


@pytest.mark.parametrize("tokens_per_block", [1, 3, 4, 16, 32, 40])
def test_rows_set_whole_reach_the_ledger_and_are_taken_back_like_all_else(tokens_per_block: int) -> None:
    geometry = PoolGeometry(tokens_per_block, 1, 12, max_sequences=2, max_length=64)
    ledger = MemoryLedger(geometry)
    columns = Columns(geometry, ledger)
    tokens, size = columns["block.tokens"], tokens_per_block
    rows = np.arange(3 * size, dtype=np.int32).reshape(3, size)
    columns["block.tokens"].scatter_rows(np.array([7, 0, 11]), rows)
    columns["block.hash"].put(2, np.void(b"h" * 16))
    columns.commit()
    committed = ledger.columns[tokens.number].reshape(12, size)
    assert np.array_equal(committed[[7, 0, 11]], rows)
    assert np.count_nonzero(committed) == 3 * size - 1
    before = [column.flat.copy() for column in columns.ordered]
    columns["block.tokens"].scatter_rows(np.array([7, 8]), rows[1:])
    columns["block.hash"].put(2, np.void(b"g" * 16))
    columns.rollback()
    for column, old in zip(columns.ordered, before, strict=True):
        assert np.array_equal(column.flat, old), column.spec.name


def test_rows_are_moved_in_the_widest_elements_that_they_consist_of() -> None:
    ledger = Watched(PoolGeometry(16, 1, 12, max_sequences=2, max_length=64))
    columns = Columns(PoolGeometry(16, 1, 12, max_sequences=2, max_length=64), ledger)
    columns["block.tokens"].scatter_rows(np.array([3, 4]), np.ones((2, 16), dtype=np.int32))
    columns.commit()
    assert [(change.width, len(change.values)) for change in ledger.changes] == [(64, 2)]


def test_an_index_array_may_change_after_it_was_used() -> None:
    ledger = MemoryLedger(GEOMETRY)
    columns = columns_on(ledger)
    places = np.array([1, 2])
    columns["slot.owner"].scatter(places, 7)
    places[:] = 0
    columns.commit()
    assert ledger.columns[columns["slot.owner"].number].tolist() == [0, 7, 7, 0, 0, 0]


def test_a_discarded_row_is_zero_here_too() -> None:
    columns = columns_on(MemoryLedger(GEOMETRY))
    tokens = columns["slot.tokens"]
    tokens.write(1, 0, np.full(GEOMETRY.max_length, 7))
    tokens.write(2, 0, np.full(GEOMETRY.max_length, 7))
    columns.commit()
    columns.discard(tokens, 1)
    assert not tokens.row(1).any()
    assert tokens.row(2).all()


def test_generous_limits_cost_address_space_only() -> None:
    columns = Columns(PoolGeometry(16, 1, 12, max_sequences=1 << 16, max_length=1 << 22))
    tokens = columns["slot.tokens"]
    assert tokens.spec.nbytes == 1 << 40
    tokens.write((1 << 16) - 1, 0, np.arange(3))
    assert columns.commit()
    assert tokens.row((1 << 16) - 1, 4).tolist() == [0, 1, 2, 0]
