"""The end of a sequence: its blocks go, its tokens stay for a while."""

from blockmgr.core.archive import FinishedRequest
from blockmgr.core.events import EventKind
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, FinishReason


def finish(state: PoolState, slot: int, reason: FinishReason) -> None:
    """End a sequence: record it as finished, give up its references, free its slot.

    Copies that are ordered for it keep their blocks until the executor has reported them done.
    """
    seqs = state.sequences
    _record(state, slot, reason)
    entries = seqs.entries(slot)
    state.note(EventKind.FINISHED, slot, entries.tolist(), reason.name.lower())
    forget_expected(state, slot)
    state.tickets.detach(slot)
    state.blocks.unreference(entries)
    seqs.leave(slot)


def _record(state: PoolState, slot: int, reason: FinishReason) -> None:
    seqs = state.sequences
    count, final = seqs.count.get(slot), seqs.final.get(slot)
    logprobs = seqs.logprobs.row(slot, count)
    state.archive.add(
        FinishedRequest(
            uuid=seqs.uuid.key(slot),
            caller=seqs.caller.key(slot),
            body=seqs.body.key(slot),
            prompt=seqs.prompt.get(slot),
            final=count if final < 0 else min(final, count),
            reason=reason,
            score=float(seqs.score.flat[slot]),
            created=float(seqs.created.flat[slot]),
            finished=state.clock.now(),
            tokens=seqs.tokens.row(slot, count),
            logprobs=logprobs if logprobs.any() else logprobs[:0],
            request=seqs.request.row(slot, seqs.request_length.get(slot)).tobytes(),
        ),
        # What another took the place of is nobody's answer: it is not kept longer for the sake of those that live.
        seqs.family.get(slot) if reason != FinishReason.REPLACED else -1,
    )


def forget_expected(state: PoolState, slot: int) -> None:
    """Nobody need wait for what this sequence was going to compute."""
    chain = state.sequences.chains.pop(slot, None)
    if chain:
        state.blocks.index.unexpect(slot, chain)


def cut(state: PoolState, slot: int) -> None:
    """Cut a table to the KV that completed steps have written.

    Blocks that held only work in flight are given up; a sequence in the host tier keeps all it has.
    """
    seqs, size = state.sequences, state.geometry.tokens_per_block
    valid = seqs.computed.get(slot)
    keep = state.geometry.blocks_for(valid)
    entries = seqs.entries(slot)
    forget_expected(state, slot)
    if keep < len(entries):
        state.tickets.detach(slot, keep)
        seqs.blocks.put(slot, keep)
        state.blocks.unreference(entries[keep:])
    seqs.launched.put(slot, valid)
    seqs.doubtful.add(slot)
    published = min(seqs.published.get(slot), valid // size)
    while published and state.blocks.state.get(int(entries[published - 1])) == BlockState.OWNED:
        # Computed, but no longer filling: it will be published again.
        published -= 1
    seqs.published.put(slot, published)
