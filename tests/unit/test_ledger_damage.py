"""Memory that is no ledger, or a damaged one, is refused, and the place is named."""

import os
import re
import struct
import zlib

import numpy as np
import pytest

from blockmgr.core.errors import InvalidMessage, LedgerCorrupt
from blockmgr.core.schema import PAGE
from blockmgr.ledger import LedgerMismatch, LedgerReader, PoolLedger, RedoLog, SharedMemory, layout, redo
from tests.ledger_cases import GEOMETRY, change, die
from tests.power_cut import PowerCut, stores


def word(value: int) -> bytes:
    return struct.pack("<q", value)


@pytest.fixture
def descriptors() -> tuple[int, int]:
    """What a manager leaves that died with a transaction committed and not applied."""
    log = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, log)
    ledger.commit([change("slot.count", [1, 2], [0, 1])])
    with stores(2), pytest.raises(PowerCut):
        ledger.commit([change("slot.count", [3, 4], [0, 1])])
    return die(ledger, log)


@pytest.mark.parametrize(
    ("offset", "data", "error", "text"),
    [
        (layout.MAGIC_AT, b"x", LedgerCorrupt, "magic word of the ledger is 0x"),
        (layout.VERSION_AT, b"\x09", LedgerMismatch, "format of the ledger is 9, but this program knows only 1"),
        (layout.LENGTH_AT, word(1 << 40), LedgerCorrupt, "but the memory ends at"),
        (layout.CHECKSUM_AT, word(1), LedgerCorrupt, "but the header says 0x1"),
    ],
)
def test_damaged_header_is_refused(
    descriptors: tuple[int, int], offset: int, data: bytes, error: type[Exception], text: str
) -> None:
    os.pwrite(descriptors[0], data, offset)
    with pytest.raises(error, match=text):
        PoolLedger.adopt(descriptors[0], RedoLog.create(PAGE))
    with pytest.raises(error, match=text):
        LedgerReader(descriptors[0])


def test_damaged_directory_is_refused(descriptors: tuple[int, int]) -> None:
    at = struct.unpack("<q", os.pread(descriptors[0], 8, layout.DIRECTORY_AT))[0]
    os.pwrite(descriptors[0], b"!", at + 30)
    with pytest.raises(LedgerCorrupt, match=f"directory of the ledger, at byte {at}, has the checksum"):
        LedgerReader(descriptors[0])


def test_directory_of_a_newer_geometry_is_refused_by_its_fields() -> None:
    directory = layout.plan("pool", GEOMETRY)
    data = directory.encode().replace(b'"max_pins":3', b'"max_pins":3,"max_shards":8')
    with pytest.raises(LedgerMismatch, match="geometry has max_shards, which this program does not know"):
        layout.Directory.decode(data)
    with pytest.raises(LedgerCorrupt, match="geometry: max_pins is 0, but must lie in"):
        layout.Directory.decode(directory.encode().replace(b'"max_pins":3', b'"max_pins":0'))
    with pytest.raises(LedgerCorrupt, match="directory cannot be read"):
        layout.Directory.decode(b"{}")


@pytest.mark.parametrize(
    ("offset", "data", "text"),
    [
        (redo.RECORD_AT + 60, b"\xff", "the record of transaction 2, [0-9]+ bytes at 4096, has the checksum"),
        (redo.RECORD_AT + 8, word(-1), "the record of transaction 2 is -1 bytes"),
        (redo.COMMITTED, word(9 << 32), "names transaction 9, but the applied word 1, which is not the one before"),
        (redo.APPLIED, word(7), "names transaction 2, but the applied word 0"),
    ],
)
def test_damaged_committed_record_is_refused(descriptors: tuple[int, int], offset: int, data: bytes, text: str) -> None:
    os.pwrite(descriptors[1], data, offset)
    log = RedoLog.adopt(descriptors[1])
    with pytest.raises(LedgerCorrupt, match=text):
        log.pending()
    with pytest.raises(LedgerCorrupt, match=text):
        PoolLedger.adopt(descriptors[0], log)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ((3, 0, 1), r"record of transaction 1 cannot be read: KeyError\(3\)"),
        ((8, 0, 100), "record of transaction 1 cannot be read: ValueError"),
    ],
)
def test_record_that_is_whole_and_cannot_be_read_is_refused(entry: tuple[int, int, int], text: str) -> None:
    log = RedoLog.create(PAGE)
    record = struct.pack("<qqq16s3q", 1, 64, 1, bytes(16), *entry)
    os.pwrite(log.descriptor, record, redo.RECORD_AT)
    os.pwrite(log.descriptor, word(1 << 32 | zlib.crc32(record)), redo.COMMITTED)
    with pytest.raises(LedgerCorrupt, match=text):
        log.pending()


def test_record_that_does_not_fit_its_ledger_is_refused() -> None:
    log = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, log)
    log.commit(ledger.key, [change("slot.count", [1], [1 << 40])])
    with pytest.raises(LedgerCorrupt, match="transaction 1 does not fit its ledger: index"):
        ledger.recover()


def test_damage_to_an_applied_record_is_nobodys_concern() -> None:
    log = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, log)
    ledger.commit([change("slot.count", [1, 2], [0, 1])])
    os.pwrite(log.descriptor, b"\xff" * 100, redo.RECORD_AT)
    assert log.pending() is None
    assert not ledger.recover()


def test_what_is_no_redo_log_is_refused() -> None:
    ledger = PoolLedger.create("pool", GEOMETRY, RedoLog.create(PAGE))
    with pytest.raises(LedgerCorrupt, match="magic word of the redo log"):
        RedoLog.adopt(ledger.descriptor)


def test_redo_log_of_another_format_is_refused(descriptors: tuple[int, int]) -> None:
    os.pwrite(descriptors[1], b"\x05", redo.VERSION_AT)
    with pytest.raises(LedgerMismatch, match="format of the redo log is 5"):
        RedoLog.adopt(descriptors[1])


def test_descriptors_that_cannot_be_mapped_safely_are_refused(tmp_path: object) -> None:
    unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, PAGE)
    with pytest.raises(LedgerCorrupt, match="its size is not final"):
        SharedMemory.adopt(unsealed)
    with open(f"{tmp_path}/file", "wb") as file, pytest.raises(LedgerCorrupt, match="is no shared memory"):
        SharedMemory.adopt(file.fileno())


def test_memory_is_private_to_its_user_and_of_a_final_size() -> None:
    memory = SharedMemory.create("memory", PAGE + 1)
    found = os.fstat(memory.descriptor)
    assert (found.st_mode & 0o777, found.st_size, found.st_blocks) == (0o600, 2 * PAGE, 0)
    for size in (PAGE, 3 * PAGE):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.descriptor, size)
    assert not os.get_inheritable(memory.descriptor)


def test_epochs_rise_over_restarts_and_the_managers_words_are_kept() -> None:
    log = RedoLog.create(PAGE)
    log.store_word(3, -7)
    assert [log.next_epoch(), log.next_epoch()] == [1, 2]
    kept = os.dup(log.descriptor)
    log.close()
    log = RedoLog.adopt(kept)
    assert (log.next_epoch(), log.word(3), log.word(4)) == (3, -7, 0)
    with pytest.raises(InvalidMessage, match=re.escape("redo word is 64, but must lie in 0..63")):
        log.word(64)


def test_transaction_numbers_start_again_after_the_last_one() -> None:
    log = RedoLog.create(PAGE)
    kept = os.dup(log.descriptor)
    last = word(0x7FFFFFFF << 32)
    os.pwrite(kept, last + last, redo.COMMITTED)
    log.close()
    log = RedoLog.adopt(kept)
    log.commit(bytes(16), [change("slot.count", [5], [1])])
    pending = log.pending()
    assert pending is not None
    assert (pending.number, pending.changes[0].values.view(np.int64).tolist()) == (0, [5])
    log.applied()
    assert log.pending() is None
