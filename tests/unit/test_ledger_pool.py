"""A pool's ledger while nobody dies: what is committed is there, and memory is taken only by what was written."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from blockmgr.core.columns import Change, Columns
from blockmgr.core.schema import PAGE
from blockmgr.ledger import LedgerMismatch, LedgerReader, PoolLedger, RecordTooLarge, RedoLog
from blockmgr.ledger.memory import reopen
from tests.ledger_cases import (
    GEOMETRY,
    NUMBERS,
    SCHEMA,
    Model,
    change,
    change_at,
    content,
    die,
    random_changes,
    restart,
)
from tests.power_cut import PowerCut, stores

YOUNGER = frozenset({"slot.logprobs", "pin.id"})


@pytest.fixture
def redo() -> Iterator[RedoLog]:
    redo = RedoLog.create(1 << 20)
    yield redo
    redo.close()


@pytest.fixture
def ledger(redo: RedoLog) -> Iterator[PoolLedger]:
    ledger = PoolLedger.create("pool", GEOMETRY, redo, {"device": "GPU-1"})
    yield ledger
    ledger.close()


def allocated(ledger: PoolLedger) -> int:
    return os.fstat(ledger.descriptor).st_blocks * 512


@pytest.mark.parametrize("seed", range(5))
def test_random_transactions_are_kept_over_a_restart(ledger: PoolLedger, redo: RedoLog, seed: int) -> None:
    model, random = Model(), np.random.default_rng(seed)
    for _ in range(60):
        changes = random_changes(random)
        ledger.commit(changes)
        model.apply(changes)
    assert content(ledger) == model.content()
    ledger, redo = restart(die(ledger, redo))
    assert content(ledger) == model.content()
    assert [ledger.committed(number).tobytes() for number in range(len(SCHEMA))] == model.content()


def test_cores_columns_survive_through_the_ledger(ledger: PoolLedger, redo: RedoLog) -> None:
    columns = Columns(GEOMETRY, ledger)
    columns["slot.count"].put(2, 9)
    columns["slot.uuid"].put(2, np.void(bytes(range(16))))
    columns["slot.tokens"].write(2, 0, np.arange(9, dtype=np.int32))
    assert columns.commit()
    columns["slot.count"].put(2, 10)
    columns.rollback()
    assert columns["slot.count"].get(2) == 9
    ledger, redo = restart(die(ledger, redo))
    again = Columns(GEOMETRY, ledger)
    again.load()
    assert again["slot.count"].get(2) == 9
    assert again["slot.uuid"].key(2) == bytes(range(16))
    assert again["slot.tokens"].row(2, 10).tolist() == [*range(9), 0]


def test_name_of_any_length_is_kept_and_everything_may_be_closed_twice(redo: RedoLog) -> None:
    ledger = PoolLedger.create("é" * 500, GEOMETRY, redo)
    reader = LedgerReader(reopen(ledger.descriptor, os.O_RDONLY))
    assert reader.pool == "é" * 500
    for part in (reader, ledger, redo) * 2:
        part.close()


def test_what_was_given_at_creation_is_read_back(ledger: PoolLedger, redo: RedoLog) -> None:
    key = ledger.key
    ledger.manager_epoch = 3
    ledger, redo = restart(die(ledger, redo))
    assert (ledger.pool, ledger.key, ledger.geometry) == ("pool", key, GEOMETRY)
    assert (ledger.meta, ledger.manager_epoch) == ({"device": "GPU-1"}, 3)


def test_every_store_of_a_transaction_is_seen_by_the_hook(ledger: PoolLedger) -> None:
    with stores() as counter:
        ledger.commit([change("slot.count", [1, 2], [0, 3]), change("slot.tokens", [5, 6], start=7)])
    # The record, the commit word, the sequence number before and after, two changes, the applied word.
    assert counter.count == 7
    with stores() as counter:
        ledger.stage(NUMBERS["slot.tokens"], 0, np.arange(3, dtype=np.int32))
    assert counter.count == 1


def test_staged_values_are_there_without_a_transaction(ledger: PoolLedger) -> None:
    ledger.stage(NUMBERS["slot.tokens"], 5, np.arange(3, dtype=np.int32))
    assert ledger.committed(NUMBERS["slot.tokens"])[4:9].tolist() == [0, 0, 1, 2, 0]


def test_record_larger_than_the_log_changes_nothing() -> None:
    redo = RedoLog.create(PAGE)
    ledger = PoolLedger.create("pool", GEOMETRY, redo)
    values = np.ones(PAGE, dtype=np.uint8)
    with stores() as counter, pytest.raises(RecordTooLarge, match="one transaction holds at most 4096") as caught:
        ledger.commit([change("archive.bytes", values)])
    assert counter.count == 0
    assert caught.value.needed > caught.value.capacity == PAGE
    ledger.commit([change("archive.bytes", values[:100])])
    assert ledger.committed(NUMBERS["archive.bytes"])[98:102].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (change("archive.cursor", np.zeros(PAGE), start=1), IndexError),
        (replace(change("slot.count", [1]), start=0), IndexError),
        (change("slot.count", [1, 2], [0]), ValueError),
        (replace(change("slot.count", [1]), values=np.array([1], dtype=np.int32)), TypeError),
    ],
    ids=["beyond the end", "before the beginning", "more values than places", "other type"],
)
def test_change_that_cannot_be_applied_is_refused_before_the_commit(
    ledger: PoolLedger, wrong: Change, error: type[Exception]
) -> None:
    with stores() as counter, pytest.raises(error):
        ledger.commit([wrong])
    assert counter.count == 0


def test_load_allocates_nothing_in_the_ledger(ledger: PoolLedger) -> None:
    ledger.commit([change("slot.tokens", [1], [SCHEMA[NUMBERS["slot.tokens"]].stride * 2])])
    before = allocated(ledger)
    assert content(ledger) != Model().content()
    assert allocated(ledger) == before
    assert before < os.fstat(ledger.descriptor).st_size / 2


def test_discarded_row_is_zero_and_its_memory_is_free(ledger: PoolLedger) -> None:
    number = NUMBERS["slot.tokens"]
    stride = SCHEMA[number].stride
    assert stride * 4 % PAGE == 0
    full = np.ones(3 * stride, dtype=np.int32)
    ledger.commit([change("slot.tokens", full)])
    before = allocated(ledger)
    ledger.discard(number, stride, stride)
    assert before - allocated(ledger) == stride * 4
    found = ledger.committed(number)
    assert found[:stride].all()
    assert not found[stride : 2 * stride].any()
    assert found[2 * stride : 3 * stride].all()


def test_discard_spares_pages_that_others_share(ledger: PoolLedger) -> None:
    ledger.commit([change("slot.count", np.arange(GEOMETRY.max_sequences))])
    ledger.discard(NUMBERS["slot.count"], 1, 2)
    assert ledger.committed(NUMBERS["slot.count"]).tolist() == list(range(GEOMETRY.max_sequences))


def test_ledger_of_another_geometry_is_refused_with_both_values(ledger: PoolLedger, redo: RedoLog) -> None:
    descriptor = os.dup(ledger.descriptor)
    ledger.close()
    with pytest.raises(LedgerMismatch, match="max_sequences of the ledger of pool pool is 6, but 7 is expected"):
        PoolLedger.adopt(descriptor, redo, replace(GEOMETRY, max_sequences=7))
    assert PoolLedger.adopt(descriptor, redo, GEOMETRY).geometry == GEOMETRY


@pytest.fixture
def older_ledger(redo: RedoLog, monkeypatch: pytest.MonkeyPatch) -> PoolLedger:
    """A ledger by a program that did not know two of the columns, with a count of 4 in slot 0."""
    older = tuple(spec for spec in SCHEMA if spec.name not in YOUNGER)
    with monkeypatch.context() as patch:
        for module in ("layout", "pool_ledger"):
            patch.setattr(f"blockmgr.ledger.{module}.pool_schema", lambda _: older)
        ledger = PoolLedger.create("old", GEOMETRY, redo)
        number = next(number for number, spec in enumerate(older) if spec.name == "slot.count")
        ledger.commit([change_at(ledger.layout.offsets[number], 0, None, np.array([4]))])
    return ledger


def test_reader_of_a_ledger_that_lacks_a_sequences_column_names_it(older_ledger: PoolLedger) -> None:
    descriptor = reopen(older_ledger.descriptor, os.O_RDONLY)
    with pytest.raises(LedgerMismatch, match=r"lacks the column slot\.logprobs"):
        LedgerReader(descriptor)
    os.close(descriptor)


def test_ledger_that_lacks_a_column_is_refused_by_its_name(older_ledger: PoolLedger, redo: RedoLog) -> None:
    descriptor = os.dup(older_ledger.descriptor)
    older_ledger.close()
    with pytest.raises(LedgerMismatch, match=r"the ledger of pool old lacks the column slot\.logprobs"):
        PoolLedger.adopt(descriptor, redo)


def test_older_ledger_is_used_where_what_it_lacks_is_optional(older_ledger: PoolLedger, redo: RedoLog) -> None:
    descriptors = die(older_ledger, redo)
    ledger, redo = restart(descriptors, YOUNGER)
    at = partial(change, layout=ledger.layout)
    ledger.commit([at("slot.logprobs", [0.5], [3]), at("slot.count", [5], [1]), at("pin.block", [6], [2])])
    assert ledger.committed(NUMBERS["slot.logprobs"])[3] == 0.5
    with pytest.raises(RecordTooLarge):
        ledger.commit([at("slot.logprobs", [0.25], [3]), at("slot.count", [5] * (1 << 17), [1] * (1 << 17))])
    assert ledger.committed(NUMBERS["slot.logprobs"])[3] == 0.5, "what is refused changes nothing here either"
    with stores(5), pytest.raises(PowerCut):
        ledger.commit([at("pin.label", [bytes(64)], [0]), at("pin.expires", [1.5], [1])])
    ledger, redo = restart(die(ledger, redo), YOUNGER)
    assert ledger.committed(NUMBERS["slot.count"])[:2].tolist() == [4, 5]
    assert ledger.committed(NUMBERS["pin.block"])[2] == 6
    assert ledger.committed(NUMBERS["pin.expires"])[1] == 1.5
    assert not ledger.committed(NUMBERS["slot.logprobs"]).any()


def test_column_of_another_shape_is_refused_with_both_values(
    ledger: PoolLedger, redo: RedoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tuple(replace(spec, dtype="i4") if spec.name == "slot.count" else spec for spec in SCHEMA)
    monkeypatch.setattr("blockmgr.ledger.pool_ledger.pool_schema", lambda _: other)
    with pytest.raises(LedgerMismatch, match=r"dtype of the ledger's column slot\.count is i8, .* needs i4"):
        PoolLedger.adopt(os.dup(ledger.descriptor), redo)
