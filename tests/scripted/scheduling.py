"""What a scripted executor chooses: which beams move, and who makes room for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockmgr.core.states import Residency
from tests.scripted.sequence import Sequence

if TYPE_CHECKING:
    from tests.scripted.engine import Engine


def beam_groups(engine: Engine) -> list[list[Sequence]]:
    """Whole groups of beams, each in the order of its request."""
    groups: dict[str, dict[str, Sequence]] = {}
    for s in engine.sequences.values():
        if s.is_beam and s.forked:
            groups.setdefault(s.request.group, {})[s.request.uuid] = s
    found = []
    for root, members in groups.items():
        if root in members:
            order = [root, *(child.uuid for child in members[root].request.children())]
            if all(one in members for one in order):
                found.append([members[one] for one in order])
    return found


def broken_beams(engine: Engine) -> list[Sequence]:
    """Beams of groups that have lost a member, and so can never move again."""
    whole = {s.request.uuid for group in beam_groups(engine) for s in group}
    return [s for s in engine.sequences.values() if s.is_beam and s.forked and s.request.uuid not in whole]


def choose_victim(engine: Engine) -> Sequence | None:
    """When nothing can go on for want of blocks: whoever came last makes room in the host tier."""
    if not engine.has_host or engine.has_work_in_flight or not any(s.short for s in engine.sequences.values()):
        return None
    if any(s.held or s.moving for s in engine.sequences.values()):
        return None
    movable = [
        s
        for s in engine.sequences.values()
        if s.forked and not s.is_beam and s.is_level and s.residency == Residency.DEVICE and s.table
    ]
    return movable[-1] if len(movable) > 1 else None


def has_room_for(engine: Engine, s: Sequence) -> bool:
    """Whether a sequence may come back from the host tier."""
    if any(other.short for other in engine.sequences.values() if other.residency == Residency.DEVICE):
        return False
    return engine.free_blocks > -(-s.launched // engine.tokens_per_block) + 1
