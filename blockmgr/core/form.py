"""Whether a message is well formed: what can be told of it without looking at the pool."""

from collections.abc import Sized

import numpy as np

from blockmgr.core.columns import Array
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Appends, Ints, Message

MAX_TOKEN = (1 << 31) - 1
"""Largest token id: ids are kept in 32 bits."""


def check_form(message: Message) -> None:
    """Refuse arrays that do not run parallel, and token ids that cannot be kept."""
    progress, appends, wanted, finished = message.progress, message.appends, message.reservations, message.finished
    _parallel("progress", progress.handles, ("launched", progress.launched), ("computed", progress.computed))
    _parallel("reservations", wanted.handles, ("lengths", wanted.lengths), ("look_ahead", wanted.look_ahead))
    _parallel("finished", finished.handles, ("reasons", finished.reasons))
    for output in (child.output for fork in message.forks for child in fork.children):
        if output is not None:
            _check_ids("fork.children.output.ids", output)
    for move in message.reorders:
        _parallel("reorder", move.handles, ("parents", move.parents), ("ids", move.ids), ("scores", move.scores))
        _check_ids("reorder.ids", move.ids)
    _check_appends(appends)


def _parallel(group: str, handles: Ints, *arrays: tuple[str, Sized]) -> None:
    for name, array in arrays:
        if len(array) != len(handles):
            raise InvalidMessage(f"length of {group}.{name}", len(array), f"there are {len(handles)} handles")


def _check_appends(appends: Appends) -> None:
    _parallel("appends", appends.handles, ("starts", appends.starts))
    if not len(appends.handles):
        return
    total, least = len(appends.handles), 1
    if len(appends.counts):
        _parallel("appends", appends.handles, ("counts", appends.counts))
        total, least = int(appends.counts.sum()), int(appends.counts.min())
    if total != len(appends.ids) or least < 1:
        limit = f"counts must be at least 1 each and add up to it, not to {total}"
        raise InvalidMessage("length of appends.ids", len(appends.ids), limit)
    if appends.logprobs is not None and len(appends.logprobs) != total:
        raise InvalidMessage("length of appends.logprobs", len(appends.logprobs), f"there are {total} ids")
    _check_ids("appends.ids", appends.ids)


def _check_ids(field: str, ids: Array) -> None:
    wrong = outside(ids, MAX_TOKEN)
    if len(wrong):
        raise InvalidMessage(field, int(wrong[0]), f"token ids must lie in 0..{MAX_TOKEN}")


def outside(values: Array, limit: int) -> Array:
    """Those of some integers that do not lie in ``0..limit``."""
    # Taken for unsigned, a negative number is larger than any limit.
    return values[values.astype(np.uint64) > limit]
