"""Sequences as executors and front doors are told of them."""

from blockmgr.core.archive import FinishedRequest
from blockmgr.core.errors import NotFound
from blockmgr.core.states import SequenceState
from blockmgr.service.codec.enums import FINISH_REASONS, SEQUENCE_STATES
from blockmgr.service.pools import ManagedPool
from pagehold.blockmgr.v1 import sequence_pb2


def live_sequence(managed: ManagedPool, slot: int) -> sequence_pb2.LiveSequence:
    """The sequence in a slot that is in use."""
    seqs, executors = managed.pool.state.sequences, managed.pool.state.executors
    final = seqs.final.get(slot)
    return sequence_pb2.LiveSequence(
        uuid=seqs.uuid.key(slot),
        handle=seqs.handle(slot),
        slot=slot,
        state=SEQUENCE_STATES.to_wire[SequenceState(seqs.state.get(slot))],
        executor=executors.name_of(seqs.owner.get(slot)),
        executor_epoch=seqs.epoch.get(slot),
        prompt=seqs.prompt.get(slot),
        tokens=seqs.count.get(slot),
        final_length=final if final >= 0 else None,
        body=seqs.body.key(slot),
        attachment=seqs.attachment.get(slot),
        cancelled=bool(seqs.cancel.get(slot)),
    )


def finished_sequence(managed: ManagedPool, uuid: bytes, caller: bytes = b"") -> sequence_pb2.FinishedSequence:
    """A finished request that is still kept, the last of a ``caller`` if one is given; ``NotFound`` if there is none."""
    archive = managed.pool.state.archive
    record: FinishedRequest | None = archive.find_caller(caller) if any(caller) else archive.find(uuid)
    if record is None:
        name = f"caller {caller.hex()}" if caller else f"uuid {uuid.hex() or '(none given)'}"
        raise NotFound(f"no sequence has the {name}, nor had one that is still kept")
    return sequence_pb2.FinishedSequence(
        uuid=record.uuid,
        prompt=record.prompt,
        final_length=record.final,
        reason=FINISH_REASONS.to_wire[record.reason],
        ids=record.tokens.tolist(),
        logprobs=record.logprobs.tolist(),
        score=record.score,
        created=record.created,
        finished=record.finished,
        body=record.body,
        request=record.request,
    )
