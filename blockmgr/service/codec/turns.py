"""Turns: what an executor tells. Arrays are copied whole, never element by element."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blockmgr.core.columns import Array
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import (
    NONE,
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
from blockmgr.core.states import FinishReason
from blockmgr.service.codec.admissions import decode_admission, encode_admission
from blockmgr.service.codec.enums import FINISH_REASONS
from blockmgr.service.codec.packing import pack, unpack
from blockmgr.service.codec.wants import decode_want, encode_want
from pagehold.blockmgr.v1 import turn_pb2

LIMIT = 1 << 63
"""Numbers that the ledger stores are below it."""
HANDLE_LISTS = ("tickets_done", "swap_out", "release", "swap_in", "look_again")
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


def _handles(values: Sequence[int], field: str) -> Ints:
    """Handles or ticket ids: 64 bits on the wire, of which the core uses 63."""
    largest = max(values, default=0)
    if largest >= LIMIT:
        raise InvalidMessage(field, largest, f"must be below {LIMIT}")
    return np.array(values, dtype=np.int64)


def _parallel(group: str, arrays: dict[str, Array], *names: str, to: str = "handles") -> list[Array]:
    """Arrays by name. Refuses one that is not as long as the one that they run parallel to."""
    wanted, found = len(arrays.get(to, NONE)), [arrays.get(name, NONE) for name in names]
    for name, array in zip(names, found, strict=True):
        if len(array) != wanted:
            limit = f"it must have as many as {group}.{to}, which has {wanted}"
            raise InvalidMessage(f"{group}.{name}", f"{len(array)} entries long", limit)
    return found


def _decode_progress(progress: turn_pb2.Progress, field: str) -> Progress:
    arrays = unpack(progress)
    return Progress(*_parallel(field, arrays, "handles", "launched", "computed"))


def _decode_appends(appends: turn_pb2.Appends, field: str) -> Appends:
    arrays = unpack(appends)
    handles, starts = _parallel(field, arrays, "handles", "starts")
    counts, ids, logprobs = arrays.get("counts", NONE), arrays.get("ids", NONE), arrays.get("logprobs")
    if len(counts):
        _parallel(field, arrays, "counts")
    if logprobs is not None:
        _parallel(field, arrays, "logprobs", to="ids")
    if len(ids) and not len(handles):
        raise InvalidMessage(f"{field}.ids", f"{len(ids)} entries long", f"{field}.handles is empty")
    return Appends(handles, starts, counts, ids, logprobs)


def _decode_reservations(wanted: turn_pb2.Reservations, field: str) -> Reservations:
    arrays = unpack(wanted)
    if "look_ahead" not in arrays:
        arrays["look_ahead"] = np.zeros(len(arrays.get("handles", NONE)), dtype=np.int64)
    return Reservations(*_parallel(field, arrays, "handles", "lengths", "look_ahead"))


def _decode_finished(finished: turn_pb2.Finished, field: str) -> Finished:
    handles = _handles(finished.handles, f"{field}.handles")
    _parallel(field, {"handles": handles, "reasons": np.array(finished.reasons)}, "reasons")
    reasons = [FINISH_REASONS.decode(reason, f"{field}.reasons[{i}]") for i, reason in enumerate(finished.reasons)]
    if FinishReason.UNSPECIFIED in reasons:
        place = reasons.index(FinishReason.UNSPECIFIED)
        raise InvalidMessage(f"{field}.reasons[{place}]", 0, "a reason is required")
    return Finished(handles, reasons)


def _each(decode: Callable[[Any, str], Any]) -> Callable[[Sequence[Any], str], list[Any]]:
    """What decodes a list of messages, each under a name with its place in it."""
    return lambda values, field: [decode(value, f"{field}[{place}]") for place, value in enumerate(values)]


def _decode_fork(fork: turn_pb2.Fork, field: str) -> Fork:
    if not fork.children:
        raise InvalidMessage(f"{field}.children", "empty", "at least one child is required")
    children = [_decode_child(child) for child in fork.children]
    return Fork(_number(fork.parent, f"{field}.parent"), children)


def _decode_child(child: turn_pb2.Child) -> Child:
    output = np.array(child.output.ids, dtype=np.int32) if child.HasField("output") else None
    return Child(child.uuid, child.request, child.score, output)


def _decode_reorder(move: turn_pb2.Reorder, field: str) -> Reorder:
    arrays = unpack(move)
    scores = arrays.setdefault("scores", np.zeros(0))
    handles, parents, ids, _ = _parallel(field, arrays, "handles", "parents", "ids", "scores")
    return Reorder(handles, parents, ids, scores)


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
    "release": _handles,
    "swap_in": _handles,
    "look_again": _handles,
    "reservations": _decode_reservations,
    "admissions": _each(decode_admission),
    "demote": _as_it_is,
    "want": decode_want,
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
    if message.want is not None:
        encode_want(message.want, turn.want)
    for request in message.admissions:
        encode_admission(request, turn.admissions.add())
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
    message = turn_pb2.Child(uuid=child.uuid, request=child.request, score=child.score or None)
    if child.output is not None:
        message.output.SetInParent()
        pack(message.output, ids=child.output)
    return message
