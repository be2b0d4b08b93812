"""Beam search on a GPU: the likeliest tokens of a row, and what an engine finds with them."""

from pathlib import Path

import pytest
import torch

from tests.engines.beam_searches import Search
from tests.engines.world import engine_world
from tests.kernels.contracts.ranking import RankingContract
from tests.models.checkpoints import configuration, random_ids, reference_logits, saved


class TestRankingOnGpu(RankingContract):
    device = "cuda"


def test_searches_in_float32_find_what_transformers_does(tmp_path: Path) -> None:
    reference = saved(configuration("qwen3", max_position_embeddings=512), tmp_path / "model")
    searches = [Search(random_ids(length, length), 32) for length in (1, 15, 16, 17, 100, 200)]
    with engine_world() as world:
        sizes = ("--kv-memory", str(64 << 20), "--max-running", "32", "--chunk", "96", "--step-tokens", "256")
        world.start_engine(tmp_path / "model", "--dtype", "float32", *sizes)
        door = world.door()
        door.describe()
        door.start(*(search.start for search in searches))
        found = [search.found(door) for search in searches]
        world.check_all_free()
    for search, outputs in zip(searches, found, strict=True):
        expected = [score for _, score in search.expected(tmp_path / "model")]
        # Where two are closer than rounding, either may be found: what counts is that none is worse.
        assert [score for _, score in outputs] == pytest.approx(expected, abs=1e-3)
        for output, score in outputs:
            logits = reference_logits(reference, [*search.prompt, *output])[len(search.prompt) - 1 : -1]
            chosen = torch.log_softmax(logits, -1).gather(1, torch.tensor(output)[:, None])
            assert float(chosen.sum()) / len(output) == pytest.approx(score, abs=1e-3)
