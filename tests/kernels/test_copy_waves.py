from __future__ import annotations

import torch

from kernels.copies.waves import CopyPlan, Pair, plan_copies
from tests.kernels.contracts import below, fresh_draw


def run(plan: CopyPlan, blocks: int) -> list[int]:
    """What each block holds after the plan, if it held its own number before; a wave's reads come after its writes."""
    held = list(range(blocks))
    scratch = [held[block] for block in plan.saves]
    for wave in plan.waves:
        for source, target in wave:
            held[target] = held[source]
    for row, target in plan.restores:
        held[target] = scratch[row]
    return held


def test_any_pairs_give_what_a_snapshot_gives_and_no_wave_depends_on_its_order() -> None:
    draw = fresh_draw()
    for _ in range(200):
        blocks = 2 + below(draw, 9)
        targets = torch.randperm(blocks, generator=draw)[: 1 + below(draw, blocks)].tolist()
        pairs: list[Pair] = [(below(draw, blocks), target) for target in targets]
        plan = plan_copies([pair for pair in pairs if pair[0] != pair[1]])
        expected = list(range(blocks))
        for source, target in pairs:
            expected[target] = source
        assert run(plan, blocks) == expected
        for wave in plan.waves:
            assert not {source for source, _ in wave} & {target for _, target in wave}


def test_pairs_that_do_not_chain_take_one_wave() -> None:
    assert plan_copies([(1, 2), (1, 3), (4, 5)]) == CopyPlan(waves=[[(1, 2), (1, 3), (4, 5)]])


def test_a_chain_takes_a_wave_for_each_link_and_a_ring_one_scratch_block() -> None:
    assert plan_copies([(1, 2), (2, 3)]) == CopyPlan(waves=[[(2, 3)], [(1, 2)]])
    assert len(plan_copies([(1, 2), (2, 3), (3, 1)]).saves) == 1
