"""Every block table of a pool, from one state, in answers of less than 1 MiB."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.pool import Pool
from blockmgr.service.admin.identifiers import uuid_text
from blockmgr.service.admin.tables import TableEntries, entries_of, live_slots
from pagehold.admin.v1.dump_pb2 import TablePart
from pagehold.common.v1 import states_pb2

CHUNK_ENTRIES = 100_000
"""Entries of one answer: each takes six bytes at most, its tier included."""
PART_COST = 16
"""What a part costs beside its entries, counted in entries."""


@dataclass(slots=True)
class TableDump:
    """Copies of every table. ``chunks`` runs off the loop."""

    geometry: PoolGeometry
    entries: TableEntries
    handles: list[int]
    uuids: np.ndarray
    tokens: list[int]
    computed: list[int]

    def chunks(self) -> Iterator[list[TablePart]]:
        """Tables, lowest slot first, in lists that fit an answer; a table that is too long goes on in the next."""
        chunk: list[TablePart] = []
        room, start = CHUNK_ENTRIES, 0
        for place, length in enumerate(self.entries.lengths.tolist()):
            first = 0
            while first < length or not first:
                if room <= PART_COST:
                    yield chunk
                    chunk, room = [], CHUNK_ENTRIES
                count = min(length - first, room - PART_COST)
                chunk.append(self._part(place, first, start + first, count))
                room -= count + PART_COST
                first += count
                if not length:
                    break
            start += length
        if chunk:
            yield chunk

    def _part(self, place: int, first: int, start: int, count: int) -> TablePart:
        base = self.geometry.host_base
        blocks = self.entries.block[start : start + count]
        on_host = blocks >= base
        part = TablePart(
            handle=self.handles[place],
            uuid=uuid_text(self.uuids[place].tobytes()),
            tokens=self.tokens[place],
            computed=self.computed[place],
            first=first,
            blocks=(blocks - on_host * base).tolist(),
            group=0,
        )
        if on_host.any():
            part.tiers.extend(states_pb2.TIER_HOST if host else states_pb2.TIER_DEVICE for host in on_host.tolist())
        return part


def dump_tables(pool: Pool) -> TableDump:
    """Copy every table of a pool."""
    seqs, slots = pool.state.sequences, live_slots(pool.state)
    return TableDump(
        geometry=pool.geometry,
        entries=entries_of(pool.state, slots),
        handles=[seqs.handle(slot) for slot in slots.tolist()],
        uuids=seqs.uuid.flat[slots],
        tokens=seqs.count.flat[slots].tolist(),
        computed=seqs.computed.flat[slots].tolist(),
    )
