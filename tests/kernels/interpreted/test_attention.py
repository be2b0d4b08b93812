from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.attention.decode import launch_decode
from kernels.attention.prefill import launch_prefill
from kernels.attention.tiles import tiles
from tests.kernels.contracts import below, fresh_draw, poison
from tests.kernels.contracts.attention import AttentionContract, pick
from tests.kernels.sparse_pool import sparse_pool


class TestAttentionInterpreted(AttentionContract):
    ratios = (1, 3, 4, 7)
    blocks = (8, 128)
    rounds = 2
    longest = 150

    def test_prefill_gives_the_bits_that_decode_gives_on_tiles_of_as_many_rows(self) -> None:
        # A product on a CPU adds in another order for another number of rows; everything else must be alike.
        draw = fresh_draw()
        for window in (0, 100, 600):
            ratio = pick(draw, self.ratios)
            lengths = [513 + below(draw, 600), 1 + below(draw, 100)]
            batch = self.batch(lengths, [9, 1], heads=2 * ratio, seed=below(draw, 2**31))
            last = batch.of_last_tokens()
            shape = replace(tiles(64, ratio, torch.float32), prefill_rows=16, decode_rows=16)
            chunk, token = poison(torch.empty_like(batch.query)), poison(torch.empty_like(last.query))
            launch_prefill(*batch.paged, chunk, scale=0.2, cap=0.0, window=window, shape=shape)
            launch_decode(*last.last_tokens, token, scale=0.2, cap=0.0, window=window, shape=shape)
            assert torch.equal(chunk[(batch.query_starts[1:] - 1).long()], token)

    @pytest.mark.parametrize("window", [0, 600])
    def test_prefill_gives_the_same_bits_wherever_it_merges_splits(self, window: int) -> None:
        draw = fresh_draw()
        lengths = [1025 + below(draw, 100), 512]
        batch = self.batch(lengths, [5, 1], heads=2, kv_heads=1, seed=below(draw, 2**31))
        usual = replace(tiles(64, 2, torch.float32), prefill_rows=16)
        inside, outside = poison(torch.empty_like(batch.query)), poison(torch.empty_like(batch.query))
        for merges_inside, out in ((True, inside), (False, outside)):
            shape = replace(usual, prefill_merges_inside=merges_inside)
            launch_prefill(*batch.paged, out, scale=0.2, cap=0.0, window=window, shape=shape)
        assert torch.equal(inside, outside)

    def test_block_ids_whose_offsets_pass_32_bits_do_as_small_ones(self, tmp_path: Path) -> None:
        pool = sparse_pool(tmp_path)
        assert pool.stride(0) == 2**20
        self.assert_same_bits_on_other_blocks(pool, 200, [2047, 2048, 2049, 2050, 3000, 4000, 4095, 4096, 4097, 4099])
