"""The ledgers of the pools that engines work in, mapped for reading only: every token that is delivered comes from them."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from blockmgr.core.errors import BlockManagerError
from blockmgr.descriptors import DescriptorError, fetch_ledger
from blockmgr.ledger.reader import LedgerReader
from blockmgr.ledger.rows import SequenceRow

PASSING = frozenset({"unreachable", "timeout", "busy", "not-serving", "unknown-pool"})
"""What a descriptor socket answers, or does not, while a manager is being restarted."""

PAUSE = 0.1

log = structlog.get_logger()


class Ledgers:
    """One mapped ledger for each pool. This process owns the mappings; the manager owns the memory, which outlives it."""

    def __init__(self, descriptor_socket: Path) -> None:
        self._socket = descriptor_socket
        self._readers: dict[str, LedgerReader] = {}

    def close(self) -> None:
        """Unmap them all."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    async def map(self, pool: str) -> bool:
        """Map a pool's ledger. Says whether it took another one's place: a manager that lost its memory has made it.

        No handle of the ledger before it means anything any more. Waits for a manager that is being restarted. Raises
        DescriptorError where it refuses.
        """
        while True:
            try:
                descriptor, _ = await asyncio.to_thread(fetch_ledger, self._socket, pool)
                break
            except DescriptorError as error:
                if error.reason not in PASSING:
                    raise
                log.info("waiting for the manager", pool=pool, reason=error.reason)
            await asyncio.sleep(PAUSE)
        return self._take(pool, descriptor)

    def _take(self, pool: str, descriptor: int) -> bool:
        mapped = self._readers.get(pool)
        if mapped is not None and os.path.sameopenfile(mapped.descriptor, descriptor):
            os.close(descriptor)
            return False
        try:
            self._readers[pool] = LedgerReader(descriptor)
        except BlockManagerError:
            os.close(descriptor)
            raise
        if mapped is not None:
            mapped.close()
        return mapped is not None

    def tokens(self, pool: str, handle: int, start: int, most: int) -> Sequence[int]:
        """Recorded tokens of a sequence from a position on, at most so many; none if the handle is stale."""
        reader = self._readers.get(pool)
        found = None if reader is None else reader.tokens(handle, start)
        return () if found is None else found[:most].tolist()

    def row(self, pool: str, handle: int) -> SequenceRow | None:
        """A sequence's row with the request that is kept in it; None if the handle is stale."""
        reader = self._readers.get(pool)
        return None if reader is None else reader.row(handle)
