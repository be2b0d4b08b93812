from __future__ import annotations

import pytest
import torch

from kernels.copies import copy_blocks, copy_checked_blocks
from kernels.reference import copies as reference
from tests.kernels.contracts import below, fresh_draw

Pairs = list[tuple[int, int]]


class CopiesContract:
    device = "cpu"

    def pool(self, draw: torch.Generator, blocks: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A pool of 3 layers, keys and values, whose blocks are no multiple of what a program copies."""
        return torch.randn(blocks, 3, 2, 3, 8, 80, generator=draw).to(self.device, dtype)

    def check(self, pool: torch.Tensor, pairs: Pairs) -> None:
        expected = reference.copy_blocks(pool.cpu(), pairs)
        copy_blocks(pool, torch.tensor(pairs).reshape(-1, 2))
        assert torch.equal(pool.cpu(), expected)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_random_pairs_equal_a_copy_from_a_snapshot(self, dtype: torch.dtype) -> None:
        draw = fresh_draw()
        blocks = 2 + below(draw, 10)
        targets = 1 + torch.randperm(blocks - 1, generator=draw)[: 1 + below(draw, blocks - 1)]
        pairs = [(below(draw, blocks), target) for target in targets.tolist()]
        self.check(self.pool(draw, blocks, dtype), pairs)

    @pytest.mark.parametrize(
        "pairs",
        [
            [(1, 2), (2, 3)],
            [(2, 3), (1, 2)],
            [(1, 2), (2, 1)],
            [(1, 2), (2, 3), (3, 1), (3, 4), (5, 6), (6, 5), (4, 7), (0, 8)],
            [(5, 1), (5, 2), (5, 3), (1, 5)],
            [(4, 4), (1, 2)],
            [],
        ],
    )
    def test_chains_and_rings_equal_a_copy_from_a_snapshot(self, pairs: Pairs) -> None:
        self.check(self.pool(fresh_draw(), 9), pairs)

    @pytest.mark.parametrize("pairs", [[(1, 2), (1, 3), (0, 4), (5, 6)], []])
    def test_checked_pairs_on_the_pools_device_equal_a_copy_from_a_snapshot(self, pairs: Pairs) -> None:
        pool = self.pool(fresh_draw(), 9)
        expected = reference.copy_blocks(pool.cpu(), pairs)
        copy_checked_blocks(pool, torch.tensor(pairs, dtype=torch.int64, device=self.device).reshape(-1, 2))
        assert torch.equal(pool.cpu(), expected)

    def test_blocks_of_a_strided_pool_are_copied_and_nothing_between_them(self) -> None:
        draw = fresh_draw()
        memory = self.pool(draw, 12).flatten()
        pool = memory.unflatten(0, (12, 3, 2, 3, 8, 80))[::2]
        expected = memory.clone().unflatten(0, (12, -1))
        expected[8] = expected[2]
        copy_blocks(pool, [(1, 4)])
        assert torch.equal(memory.unflatten(0, (12, -1)), expected)

    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ([(1, 2), (3, 2)], "block 2 is the target of another pair"),
            ([(1, 0)], "block 0 is the null block"),
            ([(1, 9)], "block 9 is outside the pool of 9 blocks"),
            ([(-1, 2)], "block -1 is outside the pool"),
        ],
    )
    def test_bad_pairs_are_refused_and_nothing_is_copied(self, pairs: Pairs, message: str) -> None:
        pool = self.pool(fresh_draw(), 9)
        before = pool.clone()
        with pytest.raises(ValueError, match=message):
            copy_blocks(pool, [(5, 6), *pairs])
        assert torch.equal(pool, before)
