"""Death at any store, within a slice too: after recovery a transaction is there whole or not at all."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockmgr.core.errors import LedgerCorrupt, Precondition
from blockmgr.ledger import PoolLedger, RedoLog
from blockmgr.ledger.redo import COMMITTED
from tests.ledger_cases import GEOMETRY, Model, change, content, die, random_changes, restart
from tests.power_cut import PowerCut, stores

RECORD, COMMIT_WORD = 0, 1
"""Numbers of a transaction's first two stores."""


def new_manager() -> tuple[PoolLedger, RedoLog]:
    redo = RedoLog.create(1 << 20)
    return PoolLedger.create("pool", GEOMETRY, redo), redo


def commit_word(redo_descriptor: int) -> bytes:
    return os.pread(redo_descriptor, 8, COMMITTED)


def committed_despite_cut(ledger: PoolLedger, redo: RedoLog, model: Model, cut: int, seed: int) -> bool:
    """Cut a random transaction at a store; whether it was committed by then. The model gets what must be there."""
    changes = random_changes(np.random.default_rng(seed))
    before = commit_word(redo.descriptor)
    with stores(cut, seed) as counter, pytest.raises(PowerCut):
        ledger.commit(changes)
    assert counter.count == cut + 1
    committed = commit_word(redo.descriptor) != before
    if committed:
        model.apply(changes)
    return committed


def store_count(seed: int) -> int:
    ledger, redo = new_manager()
    with stores() as counter:
        ledger.commit(random_changes(np.random.default_rng(seed)))
    die_and_close(ledger, redo)
    return counter.count


def die_and_close(ledger: PoolLedger, redo: RedoLog) -> None:
    ledger.close()
    redo.close()


@pytest.mark.parametrize("seed", range(12))
def test_cut_at_every_store_leaves_the_transaction_whole_or_absent(seed: int) -> None:
    for cut in range(store_count(seed)):
        ledger, redo = new_manager()
        model, random = Model(), np.random.default_rng(seed + 1000)
        for _ in range(2):
            earlier = random_changes(random)
            ledger.commit(earlier)
            model.apply(earlier)
        committed = committed_despite_cut(ledger, redo, model, cut, seed)
        assert committed or cut <= COMMIT_WORD
        assert not committed or cut >= COMMIT_WORD
        ledger, redo = restart(die(ledger, redo))
        assert content(ledger) == model.content()
        die_and_close(ledger, redo)


@pytest.mark.parametrize("seed", range(4))
def test_cut_at_every_store_of_recovery_is_recovered_from(seed: int) -> None:
    last = store_count(seed) - 2
    for first in (COMMIT_WORD + 1, last):
        second, finished = 0, False
        while not finished:
            ledger, redo = new_manager()
            model = Model()
            assert committed_despite_cut(ledger, redo, model, first, seed)
            kept = die(ledger, redo)
            copies = os.dup(kept[0]), os.dup(kept[1])
            with stores(second, seed + second) as counter:
                try:
                    ledger, redo = restart(kept)
                    finished = True
                except PowerCut:
                    ledger, redo = restart(copies)
            assert content(ledger) == model.content()
            die_and_close(ledger, redo)
            second += 1
        # Two locks' holders, the sequence number twice, at least one change, the applied word.
        assert counter.count >= 6


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.one_of(st.none(), st.integers(0, 12))), min_size=1, max_size=6))
def test_any_series_of_transactions_and_deaths_keeps_exactly_what_was_committed(
    steps: list[tuple[int, int | None]],
) -> None:
    ledger, redo = new_manager()
    model = Model()
    for seed, cut in steps:
        changes = random_changes(np.random.default_rng(seed))
        before = commit_word(redo.descriptor)
        with stores(cut, seed):
            try:
                ledger.commit(changes)
                died = False
            except PowerCut:
                died = True
        if commit_word(redo.descriptor) != before:
            model.apply(changes)
        else:
            assert died
        if died:
            ledger, redo = restart(die(ledger, redo))
        assert content(ledger) == model.content()
    die_and_close(ledger, redo)


def test_recovery_may_be_repeated() -> None:
    ledger, redo = new_manager()
    model = Model()
    assert committed_despite_cut(ledger, redo, model, COMMIT_WORD + 2, 5)
    assert ledger.recover()
    assert not ledger.recover()
    assert content(ledger) == model.content()
    die_and_close(ledger, redo)


def test_no_transaction_begins_while_the_last_is_not_applied() -> None:
    ledger, redo = new_manager()
    assert committed_despite_cut(ledger, redo, Model(), COMMIT_WORD + 1, 5)
    with pytest.raises(Precondition, match="transaction 1 is committed and not applied"):
        ledger.commit([change("pool.clock", [7])])
    die_and_close(ledger, redo)


def test_recovery_leaves_another_pools_transaction_alone() -> None:
    redo = RedoLog.create(1 << 20)
    first, second = PoolLedger.create("first", GEOMETRY, redo), PoolLedger.create("second", GEOMETRY, redo)
    with stores(COMMIT_WORD + 1), pytest.raises(PowerCut):
        first.commit([change("pool.clock", [7])])
    assert not second.recover()
    assert content(second) == Model().content()
    assert first.recover()
    for ledger in (first, second):
        ledger.close()
    redo.close()


def test_half_applied_ledger_with_another_redo_log_is_refused() -> None:
    ledger, redo = new_manager()
    with stores(4), pytest.raises(PowerCut):
        ledger.commit([change("pool.clock", [7]), change("pool.serial", [8])])
    kept = die(ledger, redo)
    with pytest.raises(LedgerCorrupt, match="sequence number of the ledger of pool pool is 1"):
        PoolLedger.adopt(kept[0], RedoLog.create(1 << 20))
    ledger, redo = restart(kept)
    assert ledger.committed(0).item(0) == 0
    die_and_close(ledger, redo)
