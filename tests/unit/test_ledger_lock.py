"""One manager per ledger, for exactly as long as it lives."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blockmgr.ledger import LedgerInUse, PoolLedger, RedoLog
from tests.ledger_cases import GEOMETRY, NUMBERS, change, die, restart
from tests.unit.open_descriptors import await_closed, open_descriptors

ROOT = Path(__file__).parents[2]

MANAGER = """
import sys
from tests.ledger_cases import restart
held = restart((int(sys.argv[1]), int(sys.argv[2])))
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_manager(descriptors: tuple[int, int]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has taken the ledger over."""
    arguments = [sys.executable, "-c", MANAGER, *map(str, descriptors)]
    with subprocess.Popen(
        arguments, pass_fds=descriptors, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_second_manager_is_refused_and_let_in_when_the_first_is_killed() -> None:
    redo = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, redo)
    ledger.commit([change("slot.count", [3], [1])])
    descriptors = die(ledger, redo)
    with other_manager(descriptors) as process:
        with pytest.raises(LedgerInUse, match=f"the redo log .* process {process.pid} holds its lock") as caught:
            RedoLog.adopt(descriptors[1])
        assert caught.value.pid == process.pid
        with pytest.raises(LedgerInUse, match=f"the ledger of pool pool .* process {process.pid} holds"):
            PoolLedger.adopt(descriptors[0], RedoLog.create(1 << 20))
        process.kill()
        process.wait()
        ledger, redo = restart(descriptors)
    ledger.commit([change("slot.count", [4], [1])])
    ledger.close()
    redo.close()


def test_copy_of_the_descriptor_in_another_process_does_not_hold_the_lock() -> None:
    redo = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, redo)
    keeper = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        pass_fds=[ledger.descriptor, redo.descriptor],
        stdin=subprocess.PIPE,
    )
    try:
        ledger, redo = restart(die(ledger, redo))
        ledger.commit([change("slot.count", [4], [1])])
        assert ledger.committed(NUMBERS["slot.count"])[1] == 4
    finally:
        keeper.kill()
        keeper.communicate()


def test_refused_manager_keeps_its_descriptor_and_leaks_none() -> None:
    redo = RedoLog.create(1 << 20)
    ledger = PoolLedger.create("pool", GEOMETRY, redo)
    descriptor = os.dup(ledger.descriptor)
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(LedgerInUse):
            PoolLedger.adopt(descriptor, redo)
    await_closed(before)
    os.fstat(descriptor)
