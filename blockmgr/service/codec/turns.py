"""Turns: what an executor tells. Arrays are copied whole, never element by element."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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
from blockmgr.service.codec.packing import pack
from pagehold.blockmgr.v1 import turn_pb2

LIMIT = 1 << 63
"""Numbers that the ledger stores are below it."""
NO_DIGEST = bytes(16)
HANDLE_LISTS = ("tickets_done", "swap_out", "swap_in", "look_again")
"""Fields of a turn that are nothing but handles or ticket ids."""

# ---- the manager's side ----------------------------------------------------------------------------------------------


def decode_turn(turn: turn_pb2.Turn) -> Message:
    """A turn as the core takes it. Raises ``InvalidMessage`` where its form is wrong; the core judges the rest."""
    # Only what is there is looked at: most turns have few of the many things that one can say.
    parts = {field.name: DECODERS[field.name](value, field.name) for field, value in turn.ListFields()}
    if not parts.get("epoch"):
        raise InvalidMessage("epoch", 0, "the executor's epoch is required")
    if not parts.get("number"):
        raise InvalidMessage("number", 0, "turns are counted from 1")
    return Message(**parts)


def _number(value: int, field: str) -> int:
    if value >= LIMIT:
        raise InvalidMessage(field, value, f"must be below {LIMIT}")
    return value


def _as_it_is(value: Any, _: str) -> Any:
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
    if np.count_nonzero(array < 0):
        raise InvalidMessage(field, max(values), f"must be below {LIMIT}")
    return array


def _parallel(values: Sequence[Any], to: Sequence[Any], group: str, name: str, of: str = "handles") -> None:
    """Refuse an array that is not as long as the one that it runs parallel to."""
    if len(values) != len(to):
        limit = f"it must have as many as {group}.{of}, which has {len(to)}"
        raise InvalidMessage(f"{group}.{name}", f"{len(values)} entries long", limit)


def _decode_progress(progress: turn_pb2.Progress, field: str) -> Progress:
    handles, launched, computed = progress.handles, progress.launched, progress.computed
    _parallel(launched, handles, field, "launched")
    _parallel(computed, handles, field, "computed")
    return Progress(_handles(handles, f"{field}.handles"), _ints(launched), _ints(computed))


def _decode_appends(appends: turn_pb2.Appends, field: str) -> Appends:
    handles, starts, counts, ids = appends.handles, appends.starts, appends.counts, appends.ids
    _parallel(starts, handles, field, "starts")
    if counts:
        _parallel(counts, handles, field, "counts")
    if ids and not handles:
        raise InvalidMessage(f"{field}.ids", f"{len(ids)} entries long", f"{field}.handles is empty")
    found = Appends(_handles(handles, f"{field}.handles"), _ints(starts), _ints(counts), _ints(ids))
    if appends.logprobs:
        _parallel(appends.logprobs, ids, field, "logprobs", of="ids")
        found.logprobs = np.array(appends.logprobs, dtype=np.float32)
    return found


def _decode_reservations(wanted: turn_pb2.Reservations, field: str) -> Reservations:
    handles, lengths, look_ahead = wanted.handles, wanted.lengths, wanted.look_ahead
    _parallel(lengths, handles, field, "lengths")
    if look_ahead:
        _parallel(look_ahead, handles, field, "look_ahead")
    ahead = _ints(look_ahead) if look_ahead else np.zeros(len(handles), dtype=np.int64)
    return Reservations(_handles(handles, f"{field}.handles"), _ints(lengths), ahead)


def _decode_finished(finished: turn_pb2.Finished, field: str) -> Finished:
    _parallel(finished.reasons, finished.handles, field, "reasons")
    reasons = [FINISH_REASONS.decode(reason, f"{field}.reasons[{i}]") for i, reason in enumerate(finished.reasons)]
    if FinishReason.UNSPECIFIED in reasons:
        place = reasons.index(FinishReason.UNSPECIFIED)
        raise InvalidMessage(f"{field}.reasons[{place}]", 0, "a reason is required")
    return Finished(_handles(finished.handles, f"{field}.handles"), reasons)


def _each(decode: Callable[[Any, str], Any]) -> Callable[[Sequence[Any], str], list[Any]]:
    """What decodes a list of messages, each under a name with its place in it."""
    return lambda values, field: [decode(value, f"{field}[{place}]") for place, value in enumerate(values)]


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


DECODERS: dict[str, Callable[[Any, str], Any]] = {
    "epoch": _number,
    "number": _number,
    "launched_step": _number,
    "completed_step": _number,
    "failed": _as_it_is,
    "solo": _number,
    "progress": _decode_progress,
    "appends": _decode_appends,
    "tickets_done": _handles,
    "forks": _each(_decode_fork),
    "reorders": _each(_decode_reorder),
    "finished": _decode_finished,
    "swap_out": _handles,
    "swap_in": _handles,
    "look_again": _handles,
    "reservations": _decode_reservations,
    "admissions": _each(_decode_admission),
    "demote": _as_it_is,
}
"""For each field of a turn what makes the part of a message that has the same name."""

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
    for name in HANDLE_LISTS:
        handles = getattr(message, name)
        if len(handles):
            pack(turn, **{name: handles})
    for fork in message.forks:
        children = (_encode_child(child) for child in fork.children)
        turn.forks.add(parent=fork.parent, children=children)
    for move in message.reorders:
        pack(turn.reorders.add(), handles=move.handles, parents=move.parents, ids=move.ids, scores=move.scores)
    for request in message.admissions:
        _encode_admission(request, turn.admissions.add())
    return turn


def _encode_arrays(message: Message, turn: turn_pb2.Turn) -> None:
    """The groups of parallel arrays; one that is empty is left out."""
    progress, appends, wanted = message.progress, message.appends, message.reservations
    if len(progress.handles):
        pack(turn.progress, handles=progress.handles, launched=progress.launched, computed=progress.computed)
    if len(appends.handles):
        pack(turn.appends, handles=appends.handles, starts=appends.starts, counts=appends.counts, ids=appends.ids)
        if appends.logprobs is not None:
            pack(turn.appends, logprobs=appends.logprobs)
    if len(wanted.handles):
        pack(turn.reservations, handles=wanted.handles, lengths=wanted.lengths, look_ahead=wanted.look_ahead)
    if len(message.finished.handles):
        pack(turn.finished, handles=message.finished.handles)
        turn.finished.reasons.extend(FINISH_REASONS.to_wire[reason] for reason in message.finished.reasons)


def _encode_child(child: Child) -> turn_pb2.Child:
    return turn_pb2.Child(uuid=child.uuid, request=child.request, score=child.score or None)


def _encode_admission(request: Admission, wire: turn_pb2.Admission) -> None:
    """Defaults are left out, so that the manager's apply."""
    wire.uuid, wire.request = request.uuid, request.request
    wire.cache_salt, wire.adapter = request.salt, request.adapter
    pack(wire, prompt=request.prompt)
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
