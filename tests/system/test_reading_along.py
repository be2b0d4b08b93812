"""Whoever registers nothing reads a pool's ledger through a descriptor that nothing can be stored through."""

import fcntl
import mmap
import os
from collections.abc import Iterator

import pytest

from blockmgr.descriptors import DescriptorError, fetch_ledger
from blockmgr.ledger import LedgerReader
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import wait_until
from tests.scripted.world import World, running

PROMPT = list(range(40, 50))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Shared by tests with a pool each."""
    with running() as world:
        yield world


def refusal(world: World, pool: str | None = None) -> str:
    """The reason for which no ledger is handed out."""
    with pytest.raises(DescriptorError) as raised:
        fetch_ledger(world.runtime_dir / "descriptors.sock", pool, timeout=60)
    return raised.value.reason


def test_tokens_are_read_from_a_ledger_that_the_reader_cannot_change(world: World) -> None:
    with HandDriven(world.runtime_dir, "a", spec(name="read")) as executor:
        descriptor, meta = fetch_ledger(world.runtime_dir / "descriptors.sock", "read", timeout=60)
        assert meta["pool"] == "read"
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, mmap.PAGESIZE, access=mmap.ACCESS_WRITE)
        with pytest.raises(OSError, match="Invalid argument"):
            os.ftruncate(descriptor, 0)
        reader = LedgerReader(descriptor)
        handle = executor.admit(PROMPT).handle
        tokens = reader.tokens(handle)
        assert tokens is not None
        assert tokens.tolist() == PROMPT
        executor.finish(handle)
        wait_until(lambda: reader.tokens(handle) is None, "the row is gone")
        reader.close()


def test_a_reader_keeps_its_ledger_while_the_manager_is_started_again(world: World) -> None:
    with HandDriven(world.runtime_dir, "a", spec(name="kept")) as executor:
        reader = LedgerReader(fetch_ledger(world.runtime_dir / "descriptors.sock", "kept", timeout=60)[0])
        epoch = reader.manager_epoch
        handle = executor.admit(PROMPT).handle
        killed = world.kill_manager()
        wait_until(lambda: reader.manager_epoch > epoch, "the next manager has taken the ledger over")
        tokens = reader.tokens(handle)
        assert tokens is not None
        assert tokens.tolist() == PROMPT
        reader.close()
        world.await_manager(other_than=killed)


def test_a_pool_that_is_not_there_or_not_named_is_said_to_be_so() -> None:
    with running() as world:
        assert refusal(world) == "unknown-pool"
        with HandDriven(world.runtime_dir, "a"):
            descriptor, meta = fetch_ledger(world.runtime_dir / "descriptors.sock", timeout=60)
            os.close(descriptor)
            assert meta["pool"] == "scripted", "the only one need not be named"
            with HandDriven(world.runtime_dir, "b", spec(name="other")):
                assert refusal(world, "missing") == "unknown-pool"
                assert refusal(world) == "several-pools"
                descriptor, meta = fetch_ledger(world.runtime_dir / "descriptors.sock", "other", timeout=60)
                os.close(descriptor)
                assert meta["pool"] == "other"
