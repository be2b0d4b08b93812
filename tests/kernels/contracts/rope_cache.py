from __future__ import annotations

import pytest
import torch

from kernels.reference import rope_cache as reference
from kernels.rope_cache import rope_and_cache, write_cache
from tests.kernels.contracts import TOLERANCE, below, fresh_draw

BLOCKS, LAYERS, TOKENS_PER_BLOCK = 6, 3, 16


class RopeCacheContract:
    device = "cpu"

    def tensors(
        self, draw: torch.Generator, tokens: int, heads: tuple[int, int], head_dim: int, half: int, dtype: torch.dtype
    ) -> dict[str, torch.Tensor]:
        """Views of a merged projection, tables, and a layer of a pool full of NaN."""
        query_heads, kv_heads = heads
        merged = torch.randn(tokens, (query_heads + 2 * kv_heads) * head_dim, generator=draw).to(self.device, dtype)
        cut = [query_heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
        query, key, value = (part.unflatten(1, (-1, head_dim)) for part in merged.split(cut, dim=1))
        angles = torch.randn(100, half, generator=draw)
        pool = torch.full((BLOCKS, LAYERS, 2, kv_heads, TOKENS_PER_BLOCK, head_dim), float("nan"), dtype=dtype)
        pool = pool.to(self.device)
        slots = TOKENS_PER_BLOCK + torch.randperm((BLOCKS - 1) * TOKENS_PER_BLOCK, generator=draw)[:tokens]
        return {
            "query": query,
            "key": key,
            "value": value,
            "cos": angles.cos().to(self.device),
            "sin": angles.sin().to(self.device),
            "positions": torch.randint(100, (tokens,), generator=draw).to(self.device),
            "key_cache": pool[:, 1, 0],
            "value_cache": pool[:, 1, 1],
            "slots": slots.to(self.device),
            "pool": pool,
        }

    @staticmethod
    def run(given: dict[str, torch.Tensor]) -> None:
        rope_and_cache(**{name: tensor for name, tensor in given.items() if name != "pool"})

    @pytest.mark.parametrize("dtype", TOLERANCE)
    @pytest.mark.parametrize(
        ("heads", "head_dim", "half"),
        [
            ((4, 2), 64, 32),
            ((3, 1), 80, 40),
            ((9, 3), 96, 48),
            ((2, 2), 112, 20),
            ((12, 12), 128, 64),
            ((2, 1), 256, 16),
        ],
    )
    def test_rotates_and_writes_as_the_reference(
        self, heads: tuple[int, int], head_dim: int, half: int, dtype: torch.dtype
    ) -> None:
        draw = fresh_draw()
        given = self.tensors(draw, 1 + below(draw, 6), heads, head_dim, half, dtype)
        given["slots"][below(draw, len(given["slots"]))] = -1
        cpu = {name: tensor.cpu().clone() for name, tensor in given.items()}
        self.run(given)
        tables = cpu["cos"], cpu["sin"], cpu["positions"]
        query, key = (reference.rotate(cpu[name], *tables) for name in ("query", "key"))
        close = TOLERANCE[dtype]
        torch.testing.assert_close(given["query"].cpu().float(), query, rtol=close, atol=close)
        torch.testing.assert_close(given["key"].cpu().float(), key, rtol=close, atol=close)
        # What was written is what was computed, rounded once; every other number of the pool is NaN as before.
        expected = cpu["pool"].clone()
        expected[:, 1, 0] = reference.write(given["key"].cpu(), cpu["key_cache"], cpu["slots"])
        expected[:, 1, 1] = reference.write(cpu["value"], cpu["value_cache"], cpu["slots"])
        torch.testing.assert_close(given["pool"].cpu(), expected, rtol=0, atol=0, equal_nan=True)

    def test_padding_rows_write_nothing_though_every_block_is_owned(self) -> None:
        given = self.tensors(fresh_draw(), 4, (4, 2), 64, 32, torch.float32)
        given["pool"].copy_(torch.randn(given["pool"].shape))
        given["slots"][:] = torch.tensor([TOKENS_PER_BLOCK, -1, BLOCKS * TOKENS_PER_BLOCK - 1, -1])
        before = given["pool"].clone()
        self.run(given)
        changed = (given["pool"] != before).any(-1).nonzero().tolist()
        places = [(1, 0), (BLOCKS - 1, TOKENS_PER_BLOCK - 1)]
        assert changed == [
            [block, 1, half, head, offset] for block, offset in places for half in range(2) for head in range(2)
        ]

    def test_without_rotation_keys_are_written_as_they_are(self) -> None:
        given = self.tensors(fresh_draw(), 5, (4, 2), 80, 40, torch.float32)
        key = given["key"].clone()
        expected = reference.write(key.cpu(), given["key_cache"].cpu(), given["slots"].cpu())
        write_cache(given["key"], given["value"], given["key_cache"], given["value_cache"], given["slots"])
        torch.testing.assert_close(given["key_cache"].cpu(), expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(given["key"], key)

    def test_a_token_has_the_same_bits_in_any_batch(self) -> None:
        given = self.tensors(fresh_draw(), 7, (4, 2), 96, 30, torch.float32)
        alone = {name: tensor.clone() for name, tensor in given.items()}
        for name in ("query", "key", "value", "positions", "slots"):
            alone[name] = alone[name][3:4]
        self.run(given)
        self.run(alone)
        assert torch.equal(given["query"][3], alone["query"][0])
        assert torch.equal(given["key"][3], alone["key"][0])

    def test_no_tokens_are_no_work(self) -> None:
        self.run(self.tensors(fresh_draw(), 0, (4, 2), 64, 32, torch.float32))

    def test_what_does_not_fit_is_refused_by_shape(self) -> None:
        given = self.tensors(fresh_draw(), 2, (4, 2), 64, 40, torch.float32)
        with pytest.raises(ValueError, match="rotate no heads of 64"):
            self.run(given)
        given = self.tensors(fresh_draw(), 2, (4, 2), 64, 32, torch.float32)
        with pytest.raises(ValueError, match="do not fit caches"):
            self.run(given | {"value": given["value"][:, :1]})
        with pytest.raises(ValueError, match=r"slots are torch\.int32"):
            self.run(given | {"slots": given["slots"].int()})
