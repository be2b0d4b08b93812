"""The order in which pairs of blocks can be copied so that no source is overwritten before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

Pair = tuple[int, int]


@dataclass
class CopyPlan:
    """What to copy, in this order: `saves`, each of `waves`, `restores`.

    Attributes:
        saves: blocks whose contents go to scratch blocks 0, 1, … first, because a ring of copies overwrites them.
        waves: lists of pairs (source, target); within a wave no target is a source.
        restores: pairs (scratch block, target).
    """

    saves: list[int] = field(default_factory=list)
    waves: list[list[Pair]] = field(default_factory=list)
    restores: list[Pair] = field(default_factory=list)


def check_pairs(pairs: torch.Tensor | Sequence[Pair], blocks: int) -> list[Pair]:
    """Return the pairs as a list, without those that copy a block to itself.

    Raises:
        ValueError: an id outside 0 to `blocks` - 1, block 0 as a target, or a target named twice.
    """
    listed = [
        (int(source), int(target)) for source, target in (pairs.tolist() if isinstance(pairs, torch.Tensor) else pairs)
    ]
    targets: set[int] = set()
    for source, target in listed:
        for block in (source, target):
            if not 0 <= block < blocks:
                raise ValueError(f"copy ({source}, {target}): block {block} is outside the pool of {blocks} blocks")
        if target == 0:
            raise ValueError(f"copy ({source}, {target}): block 0 is the null block, which nothing writes")
        if target in targets:
            raise ValueError(f"copy ({source}, {target}): block {target} is the target of another pair")
        targets.add(target)
    return [pair for pair in listed if pair[0] != pair[1]]


def plan_copies(pairs: list[Pair]) -> CopyPlan:
    """Order checked pairs so that the result equals copying from a snapshot."""
    plan = CopyPlan()
    waiting = list(pairs)
    while waiting:
        sources = {source for source, _ in waiting}
        wave = [pair for pair in waiting if pair[1] not in sources]
        if wave:
            plan.waves.append(wave)
            waiting = [pair for pair in waiting if pair[1] in sources]
        else:
            # Only rings are left: every target is still to be read. Saving one source opens its ring.
            source, target = waiting.pop()
            plan.restores.append((len(plan.saves), target))
            plan.saves.append(source)
    return plan
