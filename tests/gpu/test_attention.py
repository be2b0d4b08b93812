from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kernels.attention import paged_decode, paged_prefill
from tests.kernels.contracts import below, fresh_draw, poison
from tests.kernels.contracts.attention import AttentionContract
from tests.kernels.paged_batches import Batch

# Heads, KV heads and head size of models that are served often.
SERVED = {"Llama-3.1-8B": (32, 8, 128), "SmolLM2-135M": (9, 3, 64), "Gemma-2-2B": (8, 4, 256)}


class TestAttentionOnGpu(AttentionContract):
    device = "cuda"
    dtype = torch.bfloat16
    rounds = 5
    blocks = (8, 16, 128)
    longest = 3000

    def served(self, model: str, lengths: list[int], chunks: list[int], draw: torch.Generator) -> Batch:
        heads, kv_heads, head_dim = SERVED[model]
        return self.batch(lengths, chunks, heads=heads, kv_heads=kv_heads, head_dim=head_dim, seed=below(draw, 2**31))

    @pytest.mark.parametrize("model", SERVED)
    def test_a_long_batch_equals_the_reference(self, model: str) -> None:
        draw = fresh_draw()
        lengths = [1 + below(draw, 9000) for _ in range(12)]
        self.assert_both_equal_the_reference(self.served(model, lengths, [1 + below(draw, n) for n in lengths], draw))

    @pytest.mark.parametrize("window", [0, 700])
    @pytest.mark.parametrize("model", SERVED)
    def test_prefill_gives_the_bits_that_decode_gives_at_each_length(self, model: str, window: int) -> None:
        batch = self.served(model, [1500], [1500], fresh_draw())
        chunk, tokens = self.prefill(batch, window=window), self.decode(batch.of_every_token(), window=window)
        differing = (chunk != tokens).flatten(1).any(1).nonzero()[:, 0].tolist()
        assert not differing, f"{len(differing)} of 1500 rows differ, from row {differing[0]} on"

    @pytest.mark.parametrize("window", [0, 700])
    @pytest.mark.parametrize("model", SERVED)
    def test_prefill_gives_the_same_bits_wherever_it_merges_splits(self, model: str, window: int) -> None:
        from kernels.attention.prefill import launch_prefill
        from kernels.attention.tiles import tiles

        batch = self.served(model, [2300, 512, 1], [1500, 512, 1], fresh_draw())
        heads, kv_heads, head_dim = SERVED[model]
        usual = tiles(head_dim, heads // kv_heads, batch.query.dtype)
        inside, outside = poison(torch.empty_like(batch.query)), poison(torch.empty_like(batch.query))
        for merges_inside, out in ((True, inside), (False, outside)):
            shape = replace(usual, prefill_merges_inside=merges_inside)
            launch_prefill(*batch.paged, out, scale=0.1, cap=0.0, window=window, shape=shape)
        assert torch.equal(inside, outside)

    @pytest.mark.parametrize("model", SERVED)
    def test_each_row_of_a_large_batch_has_the_bits_it_has_alone(self, model: str) -> None:
        draw = fresh_draw()
        lengths = [1 + below(draw, 5000) for _ in range(64)]
        batch = self.served(model, lengths, [1] * 64, draw)
        together = self.decode(batch)
        assert torch.equal(self.prefill(batch), together)
        for row in range(64):
            alone = slice(row, row + 1)
            single = (batch.query[alone], batch.key_cache, batch.value_cache, batch.tables[alone], batch.lengths[alone])
            assert torch.equal(paged_decode(*single, scale=batch.query.shape[2] ** -0.5)[0], together[row])

    def test_block_ids_from_131072_on_do_as_small_ones(self) -> None:
        pool = torch.empty(131072 + 40, 1, 2, 8, 16, 128, dtype=torch.bfloat16, device="cuda")
        assert 131072 * pool.stride(0) == 2**32
        self.assert_same_bits_on_other_blocks(pool, 0, [65535, 65536, *range(131070, 131090)])

    def test_block_ids_whose_offsets_pass_32_bits_do_as_small_ones(self) -> None:
        pool = torch.empty(4200, 32, 2, 8, 16, 128, dtype=torch.bfloat16, device="cuda")
        assert pool.stride(0) == 2**20
        self.assert_same_bits_on_other_blocks(pool, 31, [2047, *range(2048, 2054), *range(4094, 4100)])

    def test_a_captured_graph_holds_for_other_lengths_and_for_padding(self) -> None:
        draw = fresh_draw()
        batch = self.served("Llama-3.1-8B", [4000] * 8, [1] * 8, draw)
        out = torch.empty_like(batch.query)
        paged_decode(*batch.last_tokens, scale=0.1, out=out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            paged_decode(*batch.last_tokens, scale=0.1, out=out)
        for lengths in ([4000] * 8, [1, 16, 17, 512, 513, 1024, 3999, 0], [0] * 8):
            batch.lengths.copy_(torch.tensor(lengths))
            poison(out)
            graph.replay()
            assert torch.equal(out, self.decode(batch, scale=0.1))
            assert out.isfinite().all()

    def test_batches_of_other_sizes_compile_nothing_new(self) -> None:
        from kernels.attention.decode import decode_kernel
        from kernels.attention.prefill import prefill_kernel
        from kernels.attention.reduce import reduce_kernel

        def compiled() -> int:
            device = torch.cuda.current_device()
            return sum(
                len(kernel.device_caches[device][0]) for kernel in (decode_kernel, prefill_kernel, reduce_kernel)
            )

        def run(sequences: int, length: int) -> None:
            batch = self.batch([length] * sequences, [1] * sequences)
            self.decode(batch)
            paged_prefill(*batch.paged, scale=0.1)

        run(2, 600)
        before = compiled()
        for sequences, length in ((1, 513), (3, 5000), (16, 1025), (17, 5), (64, 2048)):
            run(sequences, length)
        assert compiled() == before
