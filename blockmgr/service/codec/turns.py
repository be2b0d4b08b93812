"""Turns: what an executor tells. Arrays are copied whole, never element by element."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import (
    NONE,
    Admission,
    Appends,
    Child,
    Finished,
    Fork,
    Ints,
    Message,
    Progress,
    Reorder,
    Reservations,
)
from blockmgr.core.states import FinishReason, SequenceFlags
from blockmgr.service.codec.enums import FINISH_REASONS
from pagehold.blockmgr.v1 import turn_pb2

LIMIT = 1 << 63
"""Numbers that the ledger stores are below it."""
NO_DIGEST = bytes(16)

# ---- the manager's side ----------------------------------------------------------------------------------------------


def decode_turn(turn: turn_pb2.Turn) -> Message:
    """A turn as the core takes it. Raises ``InvalidMessage`` where its form is wrong; the core judges the rest."""
    if not turn.epoch:
        raise InvalidMessage("epoch", 0, "the executor's epoch is required")
    if not turn.number:
        raise InvalidMessage("number", 0, "turns are counted from 1")
    return Message(
        epoch=_number(turn.epoch, "epoch"),
        number=_number(turn.number, "number"),
        launched_step=_number(turn.launched_step, "launched_step") if turn.HasField("launched_step") else None,
        completed_step=_number(turn.completed_step, "completed_step") if turn.HasField("completed_step") else None,
        failed=turn.failed,
        solo=_number(turn.solo, "solo"),
        progress=_decode_progress(turn.progress),
        appends=_decode_appends(turn.appends),
        tickets_done=_handles(turn.tickets_done, "tickets_done"),
        forks=[_decode_fork(fork, f"forks[{place}]") for place, fork in enumerate(turn.forks)],
        reorders=[_decode_reorder(move, f"reorders[{place}]") for place, move in enumerate(turn.reorders)],
        finished=_decode_finished(turn.finished),
        swap_out=_handles(turn.swap_out, "swap_out"),
        swap_in=_handles(turn.swap_in, "swap_in"),
        look_again=_handles(turn.look_again, "look_again"),
        reservations=_decode_reservations(turn.reservations),
        admissions=[_decode_admission(prompt, f"admissions[{place}]") for place, prompt in enumerate(turn.admissions)],
        demote=turn.demote,
    )


def _number(value: int, field: str) -> int:
    if value >= LIMIT:
        raise InvalidMessage(field, value, f"must be below {LIMIT}")
    return value


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64) if values else NONE


def _handles(values: Sequence[int], field: str) -> Ints:
    """Handles or ticket ids: 64 bits on the wire, of which the core uses 63."""
    if not values:
        return NONE
    # Depending on protobuf's version numpy sees the field's own memory, unsigned, or a sequence of integers.
    try:
        array: Ints = np.array(values, dtype=np.int64)
    except OverflowError:
        raise InvalidMessage(field, max(values), f"must be below {LIMIT}") from None
    if array.min() < 0:
        raise InvalidMessage(field, max(values), f"must be below {LIMIT}")
    return array


def _parallel(values: Sequence[Any], to: Sequence[Any], group: str, name: str, of: str = "handles") -> None:
    """Refuse an array that is not as long as the one that it runs parallel to."""
    if len(values) != len(to):
        limit = f"it must have as many as {group}.{of}, which has {len(to)}"
        raise InvalidMessage(f"{group}.{name}", f"{len(values)} entries long", limit)


def _decode_progress(progress: turn_pb2.Progress) -> Progress:
    handles = progress.handles
    _parallel(progress.launched, handles, "progress", "launched")
    _parallel(progress.computed, handles, "progress", "computed")
    return Progress(_handles(handles, "progress.handles"), _ints(progress.launched), _ints(progress.computed))


def _decode_appends(appends: turn_pb2.Appends) -> Appends:
    handles, ids = appends.handles, appends.ids
    _parallel(appends.starts, handles, "appends", "starts")
    _parallel(appends.counts, handles, "appends", "counts")
    logprobs: NDArray[np.float32] | None = None
    if appends.logprobs:
        _parallel(appends.logprobs, ids, "appends", "logprobs", of="ids")
        logprobs = np.array(appends.logprobs, dtype=np.float32)
    if ids and not handles:
        raise InvalidMessage("appends.ids", f"{len(ids)} entries long", "appends.handles is empty")
    known = _handles(handles, "appends.handles")
    return Appends(known, _ints(appends.starts), _ints(appends.counts), _ints(ids), logprobs)


def _decode_reservations(wanted: turn_pb2.Reservations) -> Reservations:
    handles = wanted.handles
    _parallel(wanted.lengths, handles, "reservations", "lengths")
    if wanted.look_ahead:
        _parallel(wanted.look_ahead, handles, "reservations", "look_ahead")
        look_ahead = _ints(wanted.look_ahead)
    else:
        look_ahead = np.zeros(len(handles), dtype=np.int64)
    return Reservations(_handles(handles, "reservations.handles"), _ints(wanted.lengths), look_ahead)


def _decode_finished(finished: turn_pb2.Finished) -> Finished:
    _parallel(finished.reasons, finished.handles, "finished", "reasons")
    reasons = [FINISH_REASONS.decode(reason, f"finished.reasons[{i}]") for i, reason in enumerate(finished.reasons)]
    if FinishReason.UNSPECIFIED in reasons:
        place = reasons.index(FinishReason.UNSPECIFIED)
        raise InvalidMessage(f"finished.reasons[{place}]", 0, "a reason is required")
    return Finished(_handles(finished.handles, "finished.handles"), reasons)


def _decode_fork(fork: turn_pb2.Fork, field: str) -> Fork:
    if not fork.children:
        raise InvalidMessage(f"{field}.children", "empty", "at least one child is required")
    children = [Child(child.uuid, child.request, child.score) for child in fork.children]
    return Fork(_number(fork.parent, f"{field}.parent"), children)


def _decode_reorder(move: turn_pb2.Reorder, field: str) -> Reorder:
    for name in ("parents", "ids", "scores"):
        _parallel(getattr(move, name), move.handles, field, name)
    handles = _handles(move.handles, f"{field}.handles")
    return Reorder(handles, _ints(move.parents), _ints(move.ids), np.array(move.scores, dtype=np.float64))


def _decode_admission(request: turn_pb2.Admission, field: str) -> Admission:
    for name in ("reserve", "max_length"):
        if request.HasField(name) and not getattr(request, name):
            raise InvalidMessage(f"{field}.{name}", 0, "must be at least 1; leave it out for the default")
    flags = SequenceFlags.NONE
    if request.bypass_cache:
        flags |= SequenceFlags.BYPASS
    if request.no_store:
        flags |= SequenceFlags.NO_STORE
    return Admission(
        uuid=request.uuid,
        prompt=np.array(request.prompt, dtype=np.int32),
        reserve=request.reserve,
        max_length=request.max_length,
        salt=request.cache_salt,
        adapter=request.adapter,
        flags=flags,
        priority=request.priority,
        caller=request.caller if request.HasField("caller") else NO_DIGEST,
        body=request.body if request.HasField("body") else NO_DIGEST,
        request=request.request,
    )


# ---- the executor's side ---------------------------------------------------------------------------------------------


def encode_turn(message: Message, into: turn_pb2.Turn | None = None) -> turn_pb2.Turn:
    """A turn as it is sent. ``into``: an empty turn to fill, such as that of a request; by default a new one.

    Raises ``ValueError`` for a number that its field cannot hold.
    """
    turn = turn_pb2.Turn() if into is None else into
    turn.epoch, turn.number, turn.demote = message.epoch, message.number, message.demote
    turn.failed = message.failed
    if message.launched_step is not None:
        turn.launched_step = message.launched_step
    if message.completed_step is not None:
        turn.completed_step = message.completed_step
    if message.solo:
        turn.solo = message.solo
    _encode_arrays(message, turn)
    turn.tickets_done.extend(message.tickets_done.tolist())
    turn.swap_out.extend(message.swap_out.tolist())
    turn.swap_in.extend(message.swap_in.tolist())
    turn.look_again.extend(message.look_again.tolist())
    for fork in message.forks:
        children = (_encode_child(child) for child in fork.children)
        turn.forks.add(parent=fork.parent, children=children)
    for move in message.reorders:
        handles, parents, ids = move.handles.tolist(), move.parents.tolist(), move.ids.tolist()
        turn.reorders.add(handles=handles, parents=parents, ids=ids, scores=move.scores.tolist())
    for request in message.admissions:
        _encode_admission(request, turn.admissions.add())
    return turn


def _encode_arrays(message: Message, turn: turn_pb2.Turn) -> None:
    """The groups of parallel arrays; one that is empty is left out."""
    progress, appends, wanted = message.progress, message.appends, message.reservations
    if len(progress.handles):
        turn.progress.handles.extend(progress.handles.tolist())
        turn.progress.launched.extend(progress.launched.tolist())
        turn.progress.computed.extend(progress.computed.tolist())
    if len(appends.handles):
        turn.appends.handles.extend(appends.handles.tolist())
        turn.appends.starts.extend(appends.starts.tolist())
        turn.appends.counts.extend(appends.counts.tolist())
        turn.appends.ids.extend(appends.ids.tolist())
        if appends.logprobs is not None:
            turn.appends.logprobs.extend(appends.logprobs.tolist())
    if len(wanted.handles):
        turn.reservations.handles.extend(wanted.handles.tolist())
        turn.reservations.lengths.extend(wanted.lengths.tolist())
        if wanted.look_ahead.any():
            turn.reservations.look_ahead.extend(wanted.look_ahead.tolist())
    if len(message.finished.handles):
        turn.finished.handles.extend(message.finished.handles.tolist())
        turn.finished.reasons.extend(FINISH_REASONS.to_wire[reason] for reason in message.finished.reasons)


def _encode_child(child: Child) -> turn_pb2.Child:
    return turn_pb2.Child(uuid=child.uuid, request=child.request, score=child.score or None)


def _encode_admission(request: Admission, wire: turn_pb2.Admission) -> None:
    """Defaults are left out, so that the manager's apply."""
    wire.uuid, wire.request = request.uuid, request.request
    wire.cache_salt, wire.adapter = request.salt, request.adapter
    wire.prompt.extend(request.prompt.tolist())
    for name in ("reserve", "max_length", "priority"):
        value = getattr(request, name)
        if value:
            setattr(wire, name, value)
    for name in ("caller", "body"):
        digest = getattr(request, name)
        if digest != NO_DIGEST:
            setattr(wire, name, digest)
    if request.flags & SequenceFlags.BYPASS:
        wire.bypass_cache = True
    if request.flags & SequenceFlags.NO_STORE:
        wire.no_store = True
