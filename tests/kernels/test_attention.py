from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernels.attention import paged_decode, paged_prefill
from tests.kernels.contracts import below, fresh_draw
from tests.kernels.contracts.attention import BLOCKS, HEAD_SIZES, AttentionContract, pick
from tests.kernels.sparse_pool import sparse_pool


class TestAttentionInTorch(AttentionContract):
    rounds = 40

    @pytest.mark.parametrize("window", [0, 1, 40, 300])
    def test_prefill_gives_the_bits_that_decode_gives_at_each_length(self, window: int) -> None:
        draw = fresh_draw()
        for _ in range(3):
            length = 1 + below(draw, self.longest)
            shape = {
                "heads": 2 * pick(draw, self.ratios),
                "head_dim": pick(draw, HEAD_SIZES),
                "block": pick(draw, BLOCKS),
            }
            batch = self.batch([length], [length], seed=below(draw, 2**31), **shape)
            assert torch.equal(self.decode(batch.of_every_token(), window=window), self.prefill(batch, window=window))

    @pytest.mark.parametrize("threads", [1, 2, 5])
    def test_the_number_of_threads_changes_no_bit(self, threads: int) -> None:
        batch = self.batch([600, 1, 77, 300] * 8, [1, 1, 20, 200] * 8)
        expected = self.prefill(batch)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            assert torch.equal(self.prefill(batch), expected)
        finally:
            torch.set_num_threads(before)

    def test_a_batch_without_rows_gives_none(self) -> None:
        batch = self.batch([], [])
        assert paged_decode(*batch.last_tokens, scale=1.0).shape == (0, 4, 64)
        assert paged_prefill(*batch.paged, scale=1.0).shape == (0, 4, 64)

    @pytest.mark.parametrize(
        ("shape", "options", "message"),
        [
            ({"head_dim": 264}, {}, "head_dim 264"),
            ({"head_dim": 66}, {}, "head_dim 66"),
            ({"block": 24}, {}, "blocks of 24"),
            ({"block": 256}, {}, "blocks of 256"),
            ({"heads": 66, "kv_heads": 2}, {}, "66 heads"),
            ({"dtype": torch.float64}, {}, "float64"),
            ({}, {"scale": 0.0}, r"scale 0\.0"),
            ({}, {"window": -1}, "window -1"),
            ({}, {"softcap": -2.0}, r"softcap -2\.0"),
        ],
    )
    def test_what_the_kernels_cannot_do_is_refused_by_name(
        self, shape: dict[str, object], options: dict[str, object], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            self.decode(self.batch([8], [1], **shape), **options)

    def test_block_ids_whose_offsets_pass_32_bits_do_as_small_ones(self, tmp_path: Path) -> None:
        pool = sparse_pool(tmp_path)
        assert pool.stride(0) == 2**20
        self.assert_same_bits_on_other_blocks(pool, 200, [2047, 2048, 2049, 2050, 3000, 4000, 4095, 4096, 4097, 4099])
