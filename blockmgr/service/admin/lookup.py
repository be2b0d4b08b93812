"""Would a prompt hit the cache? Block by block, and why not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.events import Event, EventKind
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.pool import Pool
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState
from blockmgr.service.admin.identifiers import block_id
from blockmgr.service.admin.numbers import BLOCK_STATE
from blockmgr.service.admin.prompts import AskedPrompt, FoundChain, find_chain
from blockmgr.service.admin.tables import entries_of, live_slots
from pagehold.admin.v1 import prefix_pb2
from pagehold.admin.v1.prefix_pb2 import PrefixOutcome
from pagehold.common.v1.version_pb2 import StateVersion

GIVEN_UP = (EventKind.EVICTED, EventKind.FLUSHED)
Owner = tuple[int, str]


@dataclass(slots=True)
class Lookup:
    """All that is needed to explain a prompt. A copy: ``answer`` runs off the loop."""

    geometry: PoolGeometry
    prompt: AskedPrompt
    found: FoundChain
    fillers: dict[int, Owner]
    """Block that is being filled → handle and executor of the sequence that fills it."""
    expected: dict[int, Owner]
    """Place in the chain → handle and executor of the sequence that is going to fill it."""
    stale: tuple[np.ndarray, Indexes]
    """Hashes that unindexed blocks had when they were last full, and those blocks."""
    events: Sequence[Event]

    def answer(self, version: StateVersion) -> prefix_pb2.LookupPrefixResponse:
        """One line for each block of the prompt."""
        size, length = self.geometry.tokens_per_block, len(self.prompt.ids)
        response = prefix_pb2.LookupPrefixResponse(version=version)
        evicted = self._evictions()
        reachable, hits = True, 0
        for index in range(self.geometry.blocks_for(length)):
            line = self._line(index, evicted)
            if index >= (length - 1) // size:
                line.outcome = PrefixOutcome.PREFIX_OUTCOME_ALWAYS_COMPUTED
            elif line.outcome in (PrefixOutcome.PREFIX_OUTCOME_HIT, PrefixOutcome.PREFIX_OUTCOME_HOST_HIT):
                hits += reachable
                if not reachable:
                    line.outcome = PrefixOutcome.PREFIX_OUTCOME_UNREACHABLE
            else:
                reachable = False
            response.blocks.append(line)
        response.cached_tokens = hits * size
        return response

    def _line(self, index: int, evicted: dict[int, float]) -> prefix_pb2.PrefixBlock:
        """What there is of one block, whatever is before it."""
        line = prefix_pb2.PrefixBlock(index=index)
        if index >= len(self.found.chain):
            return line
        line.hash = self.found.chain[index].hex()
        block = int(self.found.block[index])
        if block >= 0:
            self._describe(line, block, index)
        elif index in self.expected:
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_EXPECTED
            line.handle, line.executor = self.expected[index]
        elif index in evicted:
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_EVICTED
            if evicted[index]:
                line.evicted = evicted[index]
        else:
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_NEVER_SEEN
        return line

    def _describe(self, line: prefix_pb2.PrefixBlock, block: int, index: int) -> None:
        """A block that the index names."""
        line.id.CopyFrom(block_id(self.geometry, block))
        line.state = BLOCK_STATE[int(self.found.state[index])]
        if not self.found.same[index]:
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_OTHER_TOKENS
        elif self.found.state[index] == BlockState.FILLING:
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_BEING_FILLED
            if block in self.fillers:
                line.handle, line.executor = self.fillers[block]
        elif self.geometry.is_host(block):
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_HOST_HIT
        else:
            line.outcome = PrefixOutcome.PREFIX_OUTCOME_HIT

    def _evictions(self) -> dict[int, float]:
        """Place in the chain of each block that was there and is not any more → when it went (0: not known).

        A block keeps the hash of what it held until it is filled again, and the log says what became of it.
        """
        keys, blocks = self.stale
        held: dict[bytes, int] = {}
        for key, block in zip(keys, blocks.tolist(), strict=True):
            held[key.tobytes()] = block
        missing = [index for index, block in enumerate(self.found.block.tolist()) if block < 0]
        suspects = {index: held[self.found.chain[index]] for index in missing if self.found.chain[index] in held}
        return self._when(suspects) if suspects else {}

    def _when(self, suspects: dict[int, int]) -> dict[int, float]:
        """Dates from the log. What was freed without having been cached was never on offer."""
        open_ = {block: index for index, block in suspects.items()}
        dates: dict[int, float] = {}
        for event in reversed(self.events):
            if not open_:
                break
            if event.kind in GIVEN_UP or event.kind == EventKind.FREED:
                for block in open_.keys() & event.blocks:
                    index = open_.pop(block)
                    if event.kind in GIVEN_UP:
                        dates[index] = event.time
        reaches_back = not self.events or self.events[0].revision == 1
        return dates if reaches_back else dates | dict.fromkeys(open_.values(), 0.0)


def look_up(pool: Pool, prompt: AskedPrompt, chain: list[bytes]) -> Lookup:
    """Copy all that is needed to explain a prompt, whose chain of hashes was made before."""
    state = pool.state
    found = find_chain(state, prompt, chain)
    filling = found.block[(found.block >= 0) & (found.state == BlockState.FILLING)]
    unindexed = np.flatnonzero(state.blocks.indexed.flat == 0) if (found.block < 0).any() else filling[:0]
    return Lookup(
        geometry=pool.geometry,
        prompt=prompt,
        found=found,
        fillers=_fillers(state, filling) if len(filling) else {},
        expected=_expected(state, found),
        stale=(state.blocks.hash.flat[unindexed], unindexed),
        events=state.events.kept() if len(unindexed) else [],
    )


def _owner(state: PoolState, slot: int) -> Owner:
    return state.sequences.handle(slot), state.executors.name_of(state.sequences.owner.get(slot))


def _fillers(state: PoolState, filling: Indexes) -> dict[int, Owner]:
    entries = entries_of(state, live_slots(state))
    naming = np.isin(entries.block, filling)
    owners = zip(entries.block[naming].tolist(), entries.slots[entries.place[naming]].tolist(), strict=True)
    return {block: _owner(state, slot) for block, slot in owners}


def _expected(state: PoolState, found: FoundChain) -> dict[int, Owner]:
    expected = state.blocks.index.expected
    named = ((place, expected.get(key)) for place, key in enumerate(found.chain) if found.block[place] < 0)
    return {place: _owner(state, slot) for place, slot in named if slot is not None}
