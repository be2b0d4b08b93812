"""Letting a prompt in: what of it is cached, what must be allocated, and who is computing the rest already."""

from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from blockmgr.core.copying import order_copy
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import EventKind
from blockmgr.core.messages import Admission, Admitted, LookedAgain, TableUpdate
from blockmgr.core.prefix import chain_of, root_of
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, Refusal, SequenceFlags, SequenceState, TicketKind

ID_BYTES = 16


@dataclass(slots=True)
class Hits:
    """Leading blocks of a prompt that are there: ledger block numbers, and the handle of whoever fills the next one."""

    blocks: list[int] = field(default_factory=list)
    ready: int = 0
    """How many of them, from the first on, are sealed on the device."""
    awaiting: int = 0


def look_up(state: PoolState, row: int, root: bytes, chain: list[bytes], prompt: np.ndarray, skip: int = 0) -> Hits:
    """Walk the prefix index from block ``skip`` on. Touches nothing.

    At most ⌊(L−1)/B⌋ blocks of a prompt of L tokens are hits: something is always left to compute.
    """
    hits, size = Hits(), state.geometry.tokens_per_block
    for index in range(skip, (len(prompt) - 1) // size):
        parent = chain[index - 1] if index else root
        tokens = prompt[index * size : (index + 1) * size]
        block = state.blocks.hit(chain[index], parent, tokens, row)
        if block is None:
            block = state.blocks.hit(chain[index], parent, tokens, row, host=True)
        if block is None:
            hits.awaiting = _who_fills(state, chain[index])
            break
        ready = not state.geometry.is_host(block) and state.blocks.state.get(block) != BlockState.FILLING
        if ready and hits.ready == len(hits.blocks):
            hits.ready += 1
        hits.blocks.append(block)
    return hits


def _who_fills(state: PoolState, key: bytes) -> int:
    """Handle of the live sequence that is to fill the block of a hash, or 0."""
    expected = state.blocks.index.expected.get(key)
    if expected is not None:
        return state.sequences.handle(expected)
    block = state.blocks.index.device.get(key)
    if block is None or state.blocks.state.get(block) != BlockState.FILLING:
        return 0
    for slot in state.sequences.by_owner.get(state.blocks.filler.get(block), ()):
        if block in state.sequences.entries(slot):
            return state.sequences.handle(slot)
    return 0


def admit(state: PoolState, row: int, request: Admission, tables: list[TableUpdate]) -> Admitted:
    """Give a prompt a slot, its cached prefix and blocks for the rest: all of it, or nothing and the reason."""
    refused = _cannot_be(state, request) or _is_known(state, row, request, tables) or _not_now(state, request)
    if refused is not None:
        return refused
    root = root_of(state.content, request.adapter, request.salt)
    chain = (
        request.chain if request.chain is not None else chain_of(root, request.prompt, state.geometry.tokens_per_block)
    )
    hits = Hits() if request.flags & SequenceFlags.BYPASS else look_up(state, row, root, chain, request.prompt)
    covered = len(hits.blocks)
    wanted = covered if hits.awaiting else state.geometry.blocks_for(request.reserve or len(request.prompt))
    from_host = sum(state.geometry.is_host(block) for block in hits.blocks)
    needed = max(wanted - covered, 0) + from_host
    # The request's own hits must not be evicted for it: they do not count as available.
    spare = state.available() - sum(
        state.blocks.tier_of(b).may_evict(b) for b in hits.blocks if b < state.geometry.host_base
    )
    if needed > spare:
        return Admitted(request.uuid, refusal=Refusal.POOL_EXHAUSTED, needed=needed, available=spare)
    slot = _settle_in(state, row, request, root, hits)
    take_hits(state, row, slot, hits.blocks, 0)
    if wanted > covered:
        state.sequences.extend(slot, state.blocks.take(wanted - covered))
    expect_rest(state, slot, chain)
    entries = state.sequences.entries(slot)
    tables.append(TableUpdate(state.sequences.handle(slot), 0, visible(state, entries)))
    state.note(EventKind.ADMITTED, slot, entries.tolist(), f"cached={covered}")
    size = state.geometry.tokens_per_block
    state.counts.prompt_tokens += len(request.prompt)
    state.counts.cached_prompt_tokens += covered * size
    return Admitted(request.uuid, state.sequences.handle(slot), covered * size, hits.awaiting)


def visible(state: PoolState, entries: np.ndarray) -> np.ndarray:
    """A table as its executor sees it: entries in the host tier are 0 until their ticket names a device block."""
    return np.where(entries >= state.geometry.host_base, 0, entries)


def _cannot_be(state: PoolState, request: Admission) -> Admitted | None:
    """Refuse what can never be right, each with its field."""
    limit, length = state.geometry.max_length, len(request.prompt)
    if len(request.uuid) != ID_BYTES or not any(request.uuid):
        raise InvalidMessage(
            "admission.uuid", request.uuid.hex() or "empty", f"must have {ID_BYTES} bytes, not all zero"
        )
    for name in ("caller", "body"):
        if len(getattr(request, name)) != ID_BYTES:
            raise InvalidMessage(f"admission.{name}", getattr(request, name).hex(), f"must have {ID_BYTES} bytes")

    def invalid(detail: str) -> Admitted:
        return Admitted(request.uuid, refusal=Refusal.INVALID, detail=detail)

    if length == 0:
        return invalid("prompt is empty, but must have at least one token")
    if int(request.prompt.min()) < 0:
        return invalid(f"prompt holds the token id {int(request.prompt.min())}, but ids must not be negative")
    if len(request.request) > state.geometry.request_bytes:
        return invalid(f"request has {len(request.request)} bytes, but at most {state.geometry.request_bytes} are kept")
    if request.reserve > limit or request.reserve < 0:
        return invalid(f"reserve is {request.reserve}, but must lie in 0..{limit}")
    longest = max(request.max_length, length)
    if longest > limit:
        return Admitted(request.uuid, refusal=Refusal.TOO_LONG, needed=longest, available=limit)
    # The last token is never fed, so a sequence of n tokens needs room for the KV of n - 1.
    blocks, usable = state.geometry.blocks_for(max(longest - 1, length, request.reserve)), state.capacity - 1
    if blocks > usable:
        return Admitted(request.uuid, refusal=Refusal.NEVER_FITS, needed=blocks, available=usable)
    return None


def _is_known(state: PoolState, row: int, request: Admission, tables: list[TableUpdate]) -> Admitted | None:
    """A request that is here already: the same answer for its owner, a refusal for everyone else."""
    seqs = state.sequences
    slot = seqs.by_uuid.get(request.uuid)
    if slot is None and any(request.caller):
        slot = seqs.by_caller.get(request.caller)
    if slot is None:
        finished = state.archive.find(request.uuid) or state.archive.find_caller(request.caller)
        if finished is None:
            return None
        if finished.body != request.body:
            return _other_body(request)
        return Admitted(request.uuid, refusal=Refusal.DUPLICATE, detail="the request has finished")
    if seqs.body.key(slot) != request.body:
        return _other_body(request)
    mine = seqs.owner.get(slot) == row and seqs.state.get(slot) == SequenceState.LIVE
    if not mine or seqs.uuid.key(slot) != request.uuid:
        return Admitted(request.uuid, refusal=Refusal.DUPLICATE, detail="the request is in flight")
    handle = seqs.handle(slot)
    tables.append(TableUpdate(handle, 0, visible(state, seqs.entries(slot))))
    return Admitted(request.uuid, handle, seqs.resume(slot))


def _other_body(request: Admission) -> Admitted:
    detail = "the id is in use by a request with another body"
    return Admitted(request.uuid, refusal=Refusal.BODY_MISMATCH, detail=detail)


def _not_now(state: PoolState, request: Admission) -> Admitted | None:
    if state.columns["pool.drain"].get(0):
        return Admitted(request.uuid, refusal=Refusal.DRAINING)
    if not state.sequences.free:
        return Admitted(request.uuid, refusal=Refusal.NO_SLOTS, needed=1, available=0)
    return None


def _settle_in(state: PoolState, row: int, request: Admission, root: bytes, hits: Hits) -> int:
    """Fill a fresh slot's row. Tokens and request go ahead of the commit: nothing refers to them until then."""
    seqs, size = state.sequences, state.geometry.tokens_per_block
    slot = seqs.occupy(request.uuid, request.caller)
    state.columns.stage(seqs.tokens, slot, np.asarray(request.prompt, dtype=np.int32))
    state.columns.stage(seqs.request, slot, np.frombuffer(request.request, dtype=np.uint8))
    seqs.own(slot, row, state.executors.epoch.get(row))
    seqs.body.put(slot, np.void(request.body))
    seqs.root.put(slot, np.void(root))
    numbers = {
        "request_length": len(request.request), "priority": request.priority, "flags": int(request.flags), "final": -1,
        "family": seqs.handle(slot), "attachment": 0, "deaths": 0, "death_count": 0, "prompt": len(request.prompt),
        "launched": len(hits.blocks) * size, "computed": hits.ready * size, "published": len(hits.blocks),
        "count": len(request.prompt), "state": SequenceState.LIVE,
    }  # fmt: skip
    for name, value in numbers.items():
        state.columns[f"slot.{name}"].put(slot, value)
    seqs.score.put(slot, 0.0)
    seqs.created.put(slot, state.clock.now())
    return slot


def take_hits(state: PoolState, row: int, slot: int, blocks: list[int], first: int) -> None:
    """Put hits into the table from entry ``first`` on; those in the host tier get a ticket each to come back."""
    array = np.array(blocks, dtype=np.int64)
    state.blocks.reference(array)
    state.sequences.replace(slot, first, array)
    for index, block in enumerate(blocks, first):
        if state.geometry.is_host(block):
            order_copy(state, row, slot, index, block, TicketKind.SWAP_IN)


def expect_rest(state: PoolState, slot: int, chain: list[bytes]) -> None:
    """Let others know which blocks of its prompt this sequence is going to fill."""
    seqs = state.sequences
    if seqs.flags.get(slot) & SequenceFlags.NO_STORE:
        return
    seqs.chains[slot] = chain
    state.blocks.index.expect(slot, chain[seqs.published.get(slot) :])


def look_again(state: PoolState, row: int, slot: int, tables: list[TableUpdate]) -> LookedAgain:
    """A prompt still to be computed walks the index again from where it stands.

    New hits on the device take the place of its own blocks, which nothing has written yet.
    """
    seqs, size = state.sequences, state.geometry.tokens_per_block
    handle, at = seqs.handle(slot), seqs.launched.get(slot)
    prompt = seqs.tokens.row(slot, seqs.prompt.get(slot))
    if at % size or at >= len(prompt) or seqs.flags.get(slot) & SequenceFlags.BYPASS or slot in state.tickets.of_slot:
        return LookedAgain(handle, at)
    root = seqs.root.key(slot)
    chain = seqs.chains.get(slot) or chain_of(root, prompt, size)
    first = at // size
    hits = look_up(state, row, root, chain, prompt, skip=first)
    hits.blocks = list(takewhile(lambda block: not state.geometry.is_host(block), hits.blocks))
    if hits.awaiting == handle:
        hits.awaiting = 0
    if not hits.blocks:
        if not hits.awaiting:
            # Whoever was to fill it has ended or is away: of several that ask for the same, the others wait for this one.
            expect_rest(state, slot, chain)
        return LookedAgain(handle, at, hits.awaiting)
    state.blocks.index.unexpect(slot, chain[first:])
    own = seqs.entries(slot)[first:]
    take_hits(state, row, slot, hits.blocks, first)
    kept = own[len(hits.blocks) :]
    seqs.extend(slot, kept)
    state.blocks.unreference(own[: len(hits.blocks)])
    now = (first + len(hits.blocks)) * size
    state.counts.cached_prompt_tokens += now - at
    seqs.launched.put(slot, now)
    seqs.published.put(slot, first + len(hits.blocks))
    if seqs.computed.get(slot) == at:
        seqs.computed.put(slot, at + hits.ready * size)
    expect_rest(state, slot, chain)
    tables.append(TableUpdate(handle, first, visible(state, seqs.entries(slot)[first:])))
    return LookedAgain(handle, now, hits.awaiting)
