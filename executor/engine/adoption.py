"""What an earlier life of the engine, or another engine, has left: sequences taken up from their rows in the ledger."""

import uuid

import structlog
from google.protobuf.message import DecodeError

from blockmgr.core.states import FinishReason, Residency
from blockmgr.ledger.rows import NO_FINAL, SequenceRow
from executor.engine.assembly import PendingChanges
from executor.engine.request import Request
from executor.engine.sequence import Sequence
from executor.engine.work import Work
from executor.found_outputs import is_search
from executor.manager import PoolMapping, Registration
from pagehold.engine.v1 import request_pb2

log = structlog.get_logger()


def adopt(registration: Registration, work: Work, changes: PendingChanges) -> int:
    """Take over what was left, before the first turn. Returns how many sequences.

    Each goes on where completed steps have brought it; one that has all its tokens ends with the first turn.
    """
    adopted = registration.adopt()
    for one in adopted:
        row = registration.mapping.ledger.row(one.handle)
        if row is None:
            raise RuntimeError(f"the ledger has no row for {one.handle}, which was just adopted")
        request, _ = _request(row)
        if is_search(request.kept):
            work.beams.restore(request, row.score, row.tokens[row.prompt :].tolist(), one.handle)
        if request.kept.beams.role:
            # Kept for its tokens alone.
            continue
        sequence = take_up(row, registration.mapping, one.suspect)
        work.take_up(sequence)
        changes.note(sequence.slot, list(enumerate(sequence.table)))
        log.info(
            "adopted",
            uuid=row.uuid.hex(),
            request_id=sequence.request.kept.request_id,
            tokens=row.count,
            computed=sequence.computed,
            suspect=one.suspect,
        )
    work.families.settle()
    return len(adopted)


def take_up(row: SequenceRow, mapping: PoolMapping, suspect: bool = False) -> Sequence:
    """A sequence from its row: all that completed steps had written and recorded counts, nothing else."""
    tokens = row.tokens.tolist()
    request, readable = _request(row)
    sequence = Sequence(
        request=request,
        handle=row.handle,
        tokens=tokens,
        launched=row.launched,
        computed=row.computed,
        recorded=len(tokens),
        reported=(row.launched, row.computed),
        # Its last block may be shared by now: nothing is written before the manager has looked at that.
        frozen=True,
        suspect=suspect,
    )
    if row.residency != Residency.DEVICE:
        # It made room for others; or its blocks had begun to leave or to come back, and are partly in the host tier.
        sequence.parked, sequence.residency = True, Residency(row.residency)
    else:
        sequence.update(0, row.table.tolist())
    if not suspect and not sequence.parked:
        # One that runs alone waits for nobody.
        sequence.look_before_computing(mapping.ledger.geometry.tokens_per_block)
    if not readable:
        sequence.error_id = uuid.uuid4().hex
        sequence.end(FinishReason.INTERNAL)
        log.error("its request cannot be read", uuid=row.uuid.hex(), error_id=sequence.error_id)
    if row.cancel:
        sequence.end(FinishReason.CANCELLED)
    if row.final != NO_FINAL:
        sequence.stop_at(row.final)
    if sequence.ending is None:
        sequence.find_end()
    return sequence


def _request(row: SequenceRow) -> tuple[Request, bool]:
    """The request of a row, and whether it could be read."""
    prompt = row.tokens[: row.prompt]
    try:
        return Request.from_ledger(row.uuid, prompt, row.request), True
    except DecodeError:
        return Request(row.uuid, prompt, request_pb2.Request()), False
