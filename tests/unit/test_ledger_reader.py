"""The readers' side: nothing torn, nothing stale, nothing written, nothing allocated."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from blockmgr.core.columns import Change
from blockmgr.core.errors import NotFound, Precondition
from blockmgr.core.geometry import handle_of
from blockmgr.core.states import SequenceState
from blockmgr.ledger import NO_FINAL, LedgerReader, PoolLedger, RedoLog
from blockmgr.ledger.memory import reopen
from tests.ledger_cases import GEOMETRY, NUMBERS, SCHEMA, change
from tests.power_cut import PowerCut, stores

ROOT = Path(__file__).parents[2]
SLOT, TENANCY = 2, 5
HANDLE = handle_of(TENANCY, SLOT)


def row_start(name: str, slot: int) -> int:
    return slot * SCHEMA[NUMBERS[name]].stride


def occupy(tenancy: int, prompt: list[int]) -> list[Change]:
    """A sequence that comes into the slot."""
    return [
        change("slot.tenancy", [tenancy], [SLOT]),
        change("slot.tokens", prompt, start=row_start("slot.tokens", SLOT)),
        change("slot.uuid", np.array([np.void(bytes([tenancy % 256]) * 16)]), [SLOT]),
        change("slot.final", [NO_FINAL], [SLOT]),
        change("slot.prompt", [len(prompt)], [SLOT]),
        change("slot.state", [SequenceState.LIVE], [SLOT]),
        change("slot.count", [len(prompt)], [SLOT]),
    ]


@pytest.fixture
def ledger() -> Iterator[PoolLedger]:
    redo = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, redo, {"model": "m"})
    ledger.commit(occupy(TENANCY, [7, 8, 9]))
    yield ledger
    ledger.close()
    redo.close()


@pytest.fixture
def reader(ledger: PoolLedger) -> Iterator[LedgerReader]:
    reader = LedgerReader(reopen(ledger.descriptor, os.O_RDONLY))
    yield reader
    reader.close()


def test_tokens_are_read_from_any_position(reader: LedgerReader) -> None:
    found = [reader.tokens(HANDLE, start) for start in (0, 2, 3, 50)]
    assert [None if tokens is None else tokens.tolist() for tokens in found] == [[7, 8, 9], [9], [], []]


@pytest.mark.parametrize(
    "handle",
    [handle_of(TENANCY - 1, SLOT), handle_of(TENANCY + 1, SLOT), handle_of(0, 0), handle_of(TENANCY, 1 << 19), -1],
)
def test_stale_or_unknown_handle_reads_as_none(reader: LedgerReader, handle: int) -> None:
    assert reader.tokens(handle) is None
    assert reader.sequence(handle) is None
    assert reader.row(handle) is None


def test_handle_is_stale_as_soon_as_the_tenancy_rises(ledger: PoolLedger, reader: LedgerReader) -> None:
    # The record, the commit word, the sequence number, the tenancy: and not one store more.
    with stores(4), pytest.raises(PowerCut):
        ledger.commit(occupy(TENANCY + 1, [1, 2]))
    assert reader.tokens(HANDLE) is None


def test_sequence_has_what_a_front_door_needs(ledger: PoolLedger, reader: LedgerReader) -> None:
    tokens = [10, 11, 12]
    ledger.commit(
        [change("slot.tokens", tokens, start=row_start("slot.tokens", SLOT) + 3), change("slot.count", [6], [SLOT])]
    )
    found = reader.sequence(HANDLE)
    assert found is not None
    assert (found.uuid, found.prompt, found.final) == (bytes([TENANCY]) * 16, 3, NO_FINAL)
    assert found.tokens.tolist() == [7, 8, 9, 10, 11, 12]
    assert found.output.tolist() == [10, 11, 12]
    ledger.commit([change("slot.final", [5], [SLOT])])
    found = reader.sequence(HANDLE)
    assert found is not None
    assert found.output.tolist() == [10, 11]


def test_row_has_everything_an_adopting_executor_needs(ledger: PoolLedger, reader: LedgerReader) -> None:
    request = b"request"
    ledger.commit(
        [
            change("slot.table", [4, 5, GEOMETRY.host_base], start=row_start("slot.table", SLOT)),
            change("slot.request", list(request), start=row_start("slot.request", SLOT)),
            change("slot.root", np.array([np.void(b"r" * 16)]), [SLOT]),
            change("slot.score", [-1.5], [SLOT]),
            *(
                change(f"slot.{name}", [value], [SLOT])
                for name, value in {"request_length": len(request), "flags": 2, "blocks": 3, "computed": 3}.items()
            ),
        ]
    )
    row = reader.row(HANDLE)
    assert row is not None
    assert (row.handle, row.uuid, row.root) == (HANDLE, bytes([TENANCY]) * 16, b"r" * 16)
    assert (row.request, row.flags, row.score, row.final) == (request, 2, -1.5, NO_FINAL)
    assert (row.prompt, row.count, row.computed, row.resume) == (3, 3, 3, 2)
    assert row.table.tolist() == [4, 5, GEOMETRY.host_base]
    assert row.tokens.tolist() == [7, 8, 9]
    assert row.logprobs.tolist() == [0.0, 0.0, 0.0]


def test_reading_rows_and_snapshots_allocates_nothing(ledger: PoolLedger, reader: LedgerReader) -> None:
    # The columns of single numbers have a page or two each; touch them all, so that only wide rows can make a difference.
    reader.row(HANDLE)
    before = os.fstat(ledger.descriptor).st_blocks
    reader.row(HANDLE)
    reader.snapshot(reader.names)
    assert os.fstat(ledger.descriptor).st_blocks == before
    assert before * 512 < reader.geometry.max_sequences * GEOMETRY.max_length * 4 + len(SCHEMA) * 4096


def test_snapshot_has_whole_columns_by_name(ledger: PoolLedger, reader: LedgerReader) -> None:
    found = reader.snapshot(["slot.count", "slot.tokens"])
    assert found["slot.count"].tolist() == [0, 0, 3, 0, 0, 0]
    assert found["slot.tokens"].shape == (GEOMETRY.max_sequences, GEOMETRY.max_length)
    assert found["slot.tokens"][SLOT, :4].tolist() == [7, 8, 9, 0]
    ledger.commit([change("pool.clock", [1])])
    assert reader.snapshot([]).sequence == found.sequence + 2


def test_snapshot_of_an_unknown_column_is_refused_by_its_name(reader: LedgerReader) -> None:
    with pytest.raises(NotFound, match=r"has no column slot\.colour"):
        reader.snapshot(["slot.colour"])


def test_snapshot_says_so_while_a_transaction_stays_half_applied(ledger: PoolLedger, reader: LedgerReader) -> None:
    with stores(3), pytest.raises(PowerCut):
        ledger.commit([change("pool.clock", [1])])
    with pytest.raises(Precondition, match="its sequence number is 3"):
        reader.snapshot(["pool.clock"], seconds=0.01)
    ledger.recover()
    assert reader.snapshot(["pool.clock"])["pool.clock"].tolist() == [1]


def test_directory_is_there_for_readers(ledger: PoolLedger, reader: LedgerReader) -> None:
    ledger.manager_epoch = 4
    assert (reader.pool, reader.geometry, reader.meta, reader.manager_epoch) == ("pool", GEOMETRY, {"model": "m"}, 4)
    assert reader.names == [spec.name for spec in SCHEMA]


@pytest.mark.parametrize("writable_descriptor", [False, True])
def test_readers_mapping_cannot_be_written(ledger: PoolLedger, writable_descriptor: bool) -> None:
    descriptor = os.dup(ledger.descriptor) if writable_descriptor else reopen(ledger.descriptor, os.O_RDONLY)
    inode = os.fstat(descriptor).st_ino
    ledger.close()
    reader = LedgerReader(descriptor)
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    mappings = [(line[1], line[-2]) for line in lines if line[4] == str(inode) and "pagehold-ledger-pool" in line[5]]
    assert "r--s" in [mode for mode, _ in mappings]
    array = reader._columns["slot.count"]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    assert reader.tokens(HANDLE) is not None


def test_readers_descriptor_is_for_reading_and_a_manager_can_still_go_on_with_it(ledger: PoolLedger) -> None:
    descriptor = reopen(ledger.descriptor, os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(descriptor, b"x", 0)
    ledger.close()
    again = PoolLedger.adopt(descriptor, RedoLog.create(1 << 20))
    again.commit([change("pool.clock", [1])])
    assert again.descriptor == descriptor


READER = """
import json, sys
import numpy as np
from blockmgr.core.geometry import SLOT_BITS
from blockmgr.ledger import LedgerReader
reader = LedgerReader(int(sys.argv[1]))
print("ready", flush=True)
seen = {"whole": 0, "stale": 0, "torn": 0, "snapshots": 0, "mixed": 0}
handles = set()
turn = 0
while seen["whole"] < 5000 or seen["snapshots"] + seen["mixed"] < 500 or len(handles) < 20:
    turn += 1
    handle = reader._columns["pool.serial"].item(0)
    handles.add(handle)
    tokens = reader.tokens(handle)
    if tokens is None:
        seen["stale"] += 1
    else:
        whole = np.array_equal(tokens, np.arange(len(tokens)) + 1000 * (handle >> SLOT_BITS))
        seen["whole" if whole else "torn"] += 1
    if turn % 30 == 0:
        moment = reader.snapshot(["block.step", "block.used"], seconds=60)
        values = {*moment["block.step"].tolist(), *moment["block.used"].tolist()}
        seen["snapshots" if len(values) == 1 else "mixed"] += 1
print(json.dumps(seen | {"handles": len(handles)}))
"""


class Writer:
    """Lets sequences follow each other in one slot; their tokens are position + 1000 × tenancy.

    Two block columns get one and the same number in each transaction. A handle is announced, in a column that has
    no other use here, once the transaction that brought the sequence in is over: readers go by announced handles.
    """

    def __init__(self, ledger: PoolLedger) -> None:
        self.ledger = ledger
        self.tenancy = TENANCY
        self.count = 0
        self.turn = 0
        self.start = row_start("slot.tokens", SLOT)

    def replace(self) -> None:
        self.tenancy += 1
        leaving = [("tenancy", self.tenancy), ("state", SequenceState.FREE), ("count", 0)]
        self.ledger.commit([change(f"slot.{name}", [value], [SLOT]) for name, value in leaving])
        self.ledger.discard(NUMBERS["slot.tokens"], self.start, GEOMETRY.max_length)
        prompt = np.arange(50, dtype=np.int32) + 1000 * self.tenancy
        self.ledger.stage(NUMBERS["slot.tokens"], self.start, prompt)
        self.count = len(prompt)
        coming = [("state", SequenceState.LIVE), ("count", self.count)]
        self.ledger.commit([change(f"slot.{name}", [value], [SLOT]) for name, value in coming])
        self.ledger.commit([change("pool.serial", [handle_of(self.tenancy, SLOT)])])

    def append(self) -> None:
        self.turn += 1
        numbers = np.full(GEOMETRY.total_blocks, self.turn)
        tokens = np.arange(self.count, self.count + 37) + 1000 * self.tenancy
        self.count += len(tokens)
        self.ledger.commit(
            [
                change("block.step", numbers),
                change("block.used", numbers),
                change("slot.tokens", tokens, start=self.start + self.count - len(tokens)),
                change("slot.count", [self.count], [SLOT]),
            ]
        )


def test_reader_in_another_process_sees_nothing_torn(ledger: PoolLedger) -> None:
    descriptor = reopen(ledger.descriptor, os.O_RDONLY)
    writer = Writer(ledger)
    writer.replace()
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(descriptor)], pass_fds=[descriptor], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while process.poll() is None:
            if writer.count > 1000:
                writer.replace()
            writer.append()
        seen = json.loads(process.stdout.read())
    os.close(descriptor)
    # It ends only once it has seen many of each.
    assert process.returncode == 0
    assert (seen["torn"], seen["mixed"]) == (0, 0)
