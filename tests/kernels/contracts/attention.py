from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from kernels.attention import paged_decode, paged_prefill
from kernels.dispatch import interpreting
from kernels.reference import attention as reference
from tests.kernels.block_moves import moved
from tests.kernels.contracts import below, fresh_draw, poison
from tests.kernels.paged_batches import Batch, make_batch

# ‖result − reference‖ / ‖reference‖ of each row: weights and results are rounded to the type, sums are not.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
HEAD_SIZES = (64, 80, 96, 112, 128, 256)
BLOCKS = (8, 16, 32, 64, 128)
EDGES = (1, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129)


def pick(draw: torch.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[below(draw, len(choices))]


def assert_near(result: torch.Tensor, expected: torch.Tensor) -> None:
    assert result.isfinite().all()
    error = ((result.float() - expected).norm(dim=-1) / expected.norm(dim=-1)).max()
    assert error < TOLERANCE[result.dtype], f"relative error {error:.2e}"


class AttentionContract:
    device = "cpu"
    dtype = torch.float32
    ratios: tuple[int, ...] = (1, 2, 3, 4, 7, 8, 24, 32)
    blocks: tuple[int, ...] = BLOCKS
    rounds = 12
    longest = 700

    def batch(self, lengths: list[int], chunks: list[int], **shape: Any) -> Batch:
        small: dict[str, Any] = {"heads": 4, "kv_heads": 2, "head_dim": 64, "block": 16, "dtype": self.dtype}
        return make_batch(lengths, chunks, device=self.device, **(small | shape))

    def prefill(self, batch: Batch, **options: Any) -> torch.Tensor:
        options = {"scale": batch.query.shape[2] ** -0.5} | options
        out = poison(torch.empty_like(batch.query))
        assert paged_prefill(*batch.paged, out=out, **options) is out
        return out

    def decode(self, batch: Batch, **options: Any) -> torch.Tensor:
        options = {"scale": batch.query.shape[2] ** -0.5} | options
        out = poison(torch.empty_like(batch.query))
        assert paged_decode(*batch.last_tokens, out=out, **options) is out
        return out

    def assert_same_bits_on_other_blocks(self, pool: torch.Tensor, layer: int, ids: list[int]) -> None:
        """Compare attention on the blocks `ids` of a layer of a pool with the same contents on low ids."""
        kv_heads, block, head_dim = pool.shape[3:]
        shape = {"kv_heads": kv_heads, "block": block, "head_dim": head_dim, "dtype": pool.dtype}
        batch = self.batch([90, 20], [20, 1], heads=2 * kv_heads, **shape)
        far = moved(batch, pool, layer, ids)
        assert torch.equal(self.prefill(far), self.prefill(batch))
        assert torch.equal(self.decode(far.of_last_tokens()), self.decode(batch.of_last_tokens()))

    def assert_both_equal_the_reference(self, batch: Batch, **options: Any) -> None:
        options = {"scale": batch.query.shape[2] ** -0.5} | options
        expected = reference.paged_prefill(*batch.paged, **options)
        assert_near(self.prefill(batch, **options), expected)
        ends = (batch.query_starts[1:] - 1).long()
        assert_near(self.decode(batch.of_last_tokens(), **options), expected[ends])

    @pytest.mark.parametrize("dtype", TOLERANCE)
    def test_shapes_drawn_fresh_equal_the_reference(self, dtype: torch.dtype) -> None:
        draw = fresh_draw()
        for _ in range(self.rounds):
            kv_heads = 1 + below(draw, 3)
            lengths = [1 + below(draw, pick(draw, (20, 150, self.longest))) for _ in range(1 + below(draw, 3))]
            batch = self.batch(
                lengths,
                [pick(draw, (1, length, 1 + below(draw, length))) for length in lengths],
                heads=kv_heads * pick(draw, self.ratios),
                kv_heads=kv_heads,
                head_dim=pick(draw, HEAD_SIZES),
                block=pick(draw, BLOCKS),
                dtype=dtype,
                seed=below(draw, 2**31),
            )
            window = pick(draw, (0, 1, 16, 1 + below(draw, 200)))
            self.assert_both_equal_the_reference(batch, window=window, softcap=pick(draw, (0.0, 5.0)))

    @pytest.mark.parametrize("head_dim", HEAD_SIZES)
    def test_every_head_size_and_block_size_equals_the_reference(self, head_dim: int) -> None:
        for block in self.blocks:
            self.assert_both_equal_the_reference(self.batch([70, 19], [2, 19], head_dim=head_dim, block=block))

    def test_lengths_around_the_edges_of_blocks_tiles_and_splits_equal_the_reference(self) -> None:
        shape = {"heads": 2, "kv_heads": 1}
        self.assert_both_equal_the_reference(self.batch([*EDGES, 511, 512, 513], [1] * 14, **shape))
        self.assert_both_equal_the_reference(self.batch([17, 65, 129, 513], [17, 2, 66, 2], **shape))

    def test_rows_of_few_and_of_many_splits_equal_the_reference(self) -> None:
        batch = self.batch([3 * 512, 17 * 512 + 100, 2600], [1, 1, 1], heads=2, kv_heads=1)
        self.assert_both_equal_the_reference(batch, window=pick(fresh_draw(), (0, 5000)))

    @pytest.mark.parametrize(
        ("heads", "kv_heads"), [(14, 2), (28, 4), (12, 2), (32, 32), (32, 1), (48, 2), (40, 2), (80, 4), (9, 3)]
    )
    def test_each_query_head_reads_its_own_kv_head(self, heads: int, kv_heads: int) -> None:
        batch = self.batch([20], [3], heads=heads, kv_heads=kv_heads)
        constants = torch.arange(1.0, kv_heads + 1, device=self.device)
        batch.value_cache[:] = constants[:, None, None]
        expected = constants.repeat_interleave(heads // kv_heads)[:, None].expand(batch.query.shape).to(self.dtype)
        torch.testing.assert_close(self.prefill(batch), expected)
        torch.testing.assert_close(self.decode(batch.of_last_tokens()), expected[:1])

    def test_query_heads_that_no_kv_head_divides_are_refused(self) -> None:
        with pytest.raises(ValueError, match="33 heads"):
            self.prefill(self.batch([8], [1], heads=33, kv_heads=2))

    @pytest.mark.parametrize("window", [1, 15, 16, 17, 64, 65, 158])
    def test_a_window_sees_as_many_keys_as_it_says_and_not_one_more(self, window: int) -> None:
        # Equal scores: the output is the mean of the values seen, which are the positions.
        batch = self.batch([159], [40], heads=2, kv_heads=1, dtype=torch.float32)
        batch.query.zero_()
        for entry in range(10):
            positions = torch.arange(16.0, device=self.device) + 16 * entry
            batch.value_cache[batch.tables[0, entry]] = positions[:, None]
        last = torch.arange(119, 159, device=self.device)
        mean = (last + (last - window + 1).clamp(min=0)) / 2
        expected = mean[:, None, None].expand(batch.query.shape)
        torch.testing.assert_close(self.prefill(batch, window=window), expected)
        torch.testing.assert_close(self.decode(batch.of_last_tokens(), window=window), expected[-1:])

    def test_a_capped_score_may_be_far_beyond_what_an_exponential_holds(self) -> None:
        batch = self.batch([40], [9])
        self.assert_both_equal_the_reference(batch, scale=1e4, softcap=30.0)
        self.assert_both_equal_the_reference(batch, scale=10.0, softcap=0.05)

    def test_a_sequence_without_tokens_gets_zeros(self) -> None:
        batch = self.batch([0, 5, 0], [1, 1, 1])
        for output in (self.decode(batch), self.prefill(batch), self.decode(batch, window=4)):
            assert not output[[0, 2]].any()
            assert output[1].all()

    # With 40 of them a whole tile of queries lies ahead of the first chunk.
    @pytest.mark.parametrize("singles", [3, 40])
    def test_a_mixed_step_in_two_parts_and_with_padding_has_the_bits_of_one(self, singles: int) -> None:
        ahead = [(40, 200, 1, 65)[number % 4] for number in range(singles)]
        batch = self.batch([*ahead, 130, 17, 90], [1] * singles + [50, 1, 90], kv_heads=1)
        rows, tokens = len(batch.lengths), len(batch.query)
        # Rows of padding have no tokens, and behind all rows are tokens of none, whatever they hold.
        query = torch.cat([batch.query, torch.full_like(batch.query[:9], float("nan"))])
        tables, lengths = (torch.cat([each, torch.zeros_like(each[:3])]) for each in (batch.tables, batch.lengths))
        starts = torch.cat([batch.query_starts, batch.query_starts[-1:].expand(3)])
        single_lengths = lengths.masked_fill(torch.arange(rows + 3, device=self.device) >= singles, 0)
        caches, scale = (batch.key_cache, batch.value_cache), 0.1
        out = poison(torch.empty_like(query))
        paged_decode(query[: rows + 3], *caches, tables, single_lengths, out=out[: rows + 3], scale=scale)
        decoded = out[:singles].clone()
        paged_prefill(query, *caches, tables, starts.clamp(min=singles), lengths, out=out, scale=scale, max_query=90)
        assert torch.equal(out[:singles], decoded), "what lies ahead of the first chunk is no chunk's"
        whole = self.prefill(batch, scale=scale)
        assert torch.equal(out[singles:tokens], whole[singles:])
        # The same bits where products are a GPU's or torch's; numpy's, by which the interpreter computes, go by their shape.
        assert_near(out[:singles], whole[:singles].float())
        assert interpreting() or torch.equal(out[:singles], whole[:singles])

    @pytest.mark.parametrize("length", [1, 15, 16, 17, 33])
    def test_what_lies_in_memory_that_no_token_owns_changes_nothing(self, length: int) -> None:
        outputs = []
        for content in (0.0, math.nan, math.inf):
            batch = self.batch([length, 40], [length, 2], poison=content)
            outputs.append(torch.cat([self.prefill(batch), self.decode(batch.of_last_tokens())]))
        assert outputs[0].isfinite().all()
        assert torch.equal(outputs[0], outputs[1])
        assert torch.equal(outputs[0], outputs[2])

    def test_queries_and_outputs_may_be_views(self) -> None:
        batch = self.batch([30, 50], [4, 7])
        merged = torch.randn(11, 4 + 2 * 2, 64, device=self.device).to(self.dtype)
        merged[:, :4] = batch.query
        out = poison(torch.empty_like(merged))
        paged_prefill(merged[:, :4], *batch.paged[1:], scale=0.125, out=out[:, :4])
        assert torch.equal(out[:, :4], self.prefill(batch))
        assert out[:, 4:].isnan().all()

    @pytest.mark.parametrize("window", [0, 40])
    def test_a_row_has_the_same_bits_alone_and_in_any_batch_on_any_blocks(self, window: int) -> None:
        draw = fresh_draw()
        shape = {"seed": below(draw, 2**31), "head_dim": pick(draw, HEAD_SIZES), "block": pick(draw, BLOCKS)}
        first = 1 + below(draw, self.longest)
        alone = self.batch([first], [1], **shape)
        crowd = alone.joined(self.batch([1 + below(draw, 300) for _ in range(5)], [1] * 5, **shape), draw)
        for output in (self.decode, self.prefill):
            assert torch.equal(output(alone, window=window)[0], output(crowd, window=window)[0])

    @pytest.mark.parametrize("window", [0, 40])
    def test_a_row_has_the_same_bits_however_its_prompt_is_cut(self, window: int) -> None:
        draw = fresh_draw()
        length = 2 + below(draw, 200)
        whole = self.batch([length], [length], heads=6, seed=below(draw, 2**31), head_dim=pick(draw, HEAD_SIZES))
        expected = self.prefill(whole, window=window)
        start = 0
        while start < length:
            end = min(length, start + 1 + below(draw, 80))
            assert torch.equal(self.prefill(whole.cut(start, end), window=window), expected[start:end])
            start = end
