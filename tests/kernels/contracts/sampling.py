from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch

from kernels.reference import sampling as reference
from kernels.sampling import sample
from tests.kernels.contracts import below, fresh_draw


@dataclass(frozen=True)
class Row:
    """One row's logits and parameters."""

    logits: torch.Tensor
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 42
    position: int = 7


class SamplingContract:
    device = "cpu"
    # How many rows a random test draws, of how many logits; small where every row costs a quarter of a second.
    rows, width = 40, 5003
    steps = 200

    def sample(self, *rows: Row, vocabulary: int | None = None) -> list[int]:
        def column(name: str, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor([getattr(row, name) for row in rows], dtype=dtype, device=self.device)

        drawn = sample(
            torch.stack([row.logits for row in rows]).to(self.device),
            column("temperature", torch.float32),
            column("top_k", torch.int64),
            column("top_p", torch.float32),
            column("min_p", torch.float32),
            column("seed", torch.int64),
            column("position", torch.int64),
            vocabulary=vocabulary,
        )
        assert drawn.dtype == torch.int64
        return drawn.tolist()

    def random_row(self, draw: torch.Generator, width: int, dtype: torch.dtype = torch.float32) -> Row:
        sharpness, temperature, top_p, min_p = torch.rand(4, generator=draw).tolist()
        return Row(
            (torch.randn(width, generator=draw) * (0.1 + 8 * sharpness)).to(dtype),
            temperature=0.05 + 2 * temperature,
            top_k=below(draw, width + 2) if below(draw, 2) else below(draw, 30),
            # In float32, as the kernel gets it.
            top_p=float(torch.tensor(0.01 + 1.2 * top_p)),
            min_p=0.2 * min_p if below(draw, 3) == 0 else 0.0,
            seed=int(torch.randint(-(2**62), 2**62, (), generator=draw)),
            position=below(draw, 2**31),
        )

    @staticmethod
    def best(row: Row) -> int:
        return int((row.logits == row.logits.max()).nonzero()[0])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_random_rows_draw_what_the_reference_draws(self, dtype: torch.dtype) -> None:
        draw = fresh_draw()
        width = 1 + below(draw, self.width)
        rows = [self.random_row(draw, width, dtype) for _ in range(self.rows)]
        for row, drawn in zip(rows, self.sample(*rows), strict=True):
            chosen = row.logits, row.temperature, row.top_k, row.top_p, row.min_p, row.seed, row.position
            greedy = row.top_k == 1
            assert drawn == (self.best(row) if greedy else reference.draw(*chosen)), row

    def test_flat_rows_draw_from_exactly_the_nucleus(self) -> None:
        draw = fresh_draw()
        rows = []
        for _ in range(3 * self.rows):
            row = self.random_row(draw, 5 + below(draw, 60))
            top_p = float(torch.tensor(0.2 + 0.6 * float(torch.rand((), generator=draw))))
            rows.append(replace(row, temperature=3.0 * float(row.logits.std()), top_k=0, top_p=top_p, min_p=0.0))
        for row in rows:
            expected = reference.draw(row.logits, row.temperature, 0, row.top_p, 0.0, row.seed, row.position)
            assert self.sample(row) == [expected], row

    @pytest.mark.parametrize("beginning", [-math.inf, -1000.0, -20.0, 20.0])
    def test_a_row_whose_beginning_is_unlike_its_rest_draws_what_the_reference_draws(self, beginning: float) -> None:
        draw = fresh_draw()
        row = replace(self.random_row(draw, 3000), temperature=0.7, top_k=0, top_p=0.8, min_p=0.0)
        row.logits[:2100] = beginning + torch.randn(2100, generator=draw)
        rows = [row, replace(row, position=1), replace(row, top_k=700), replace(row, temperature=1e-4)]
        expected = [reference.draw(r.logits, r.temperature, r.top_k, r.top_p, 0.0, r.seed, r.position) for r in rows]
        assert self.sample(*rows) == expected

    def test_greedy_and_sampled_rows_do_not_touch_each_other_in_any_order(self) -> None:
        draw = fresh_draw()
        masked = torch.randn(300, generator=draw)
        masked[masked.topk(5).indices] = -math.inf
        rows = [
            Row(masked, temperature=0.0),
            Row(torch.randn(300, generator=draw), temperature=0.8, top_k=5),
            Row(torch.randn(300, generator=draw), temperature=0.0, top_k=9, top_p=0.3),
        ]
        alone = [self.sample(row)[0] for row in rows]
        assert alone[0] == self.best(rows[0])
        assert alone[2] == self.best(rows[2])
        for order in itertools.permutations(range(3)):
            assert self.sample(*(rows[index] for index in order)) == [alone[index] for index in order]

    def test_a_seeded_row_draws_the_same_whoever_shares_its_batch(self) -> None:
        draw = fresh_draw()
        rows = [self.random_row(draw, 300) for _ in range(5)]
        rows += [replace(self.random_row(draw, 300), temperature=0.8, seed=42, position=p, top_k=0) for p in range(3)]
        together = self.sample(*rows)
        assert [self.sample(row)[0] for row in rows] == together
        assert self.sample(*reversed(rows)) == together[::-1]

    @pytest.mark.parametrize("top_k", [-2, -1, 0, 300, 301, 2**31, 2**40])
    def test_top_k_of_none_or_all_is_off(self, top_k: int) -> None:
        row = Row(torch.randn(300, generator=fresh_draw()), temperature=2.0)
        assert self.sample(replace(row, top_k=top_k)) == self.sample(row)

    @pytest.mark.parametrize("top_p", [1.0, 1.0001, math.inf, math.nan])
    def test_top_p_of_one_or_more_is_off(self, top_p: float) -> None:
        row = Row(torch.randn(300, generator=fresh_draw()), temperature=2.0)
        assert self.sample(replace(row, top_p=top_p)) == self.sample(row)

    @pytest.mark.parametrize(
        "greedy",
        [
            {"temperature": 0.0},
            {"temperature": -1.0},
            {"temperature": math.nan},
            {"temperature": 9e-6},
            {"top_k": 1},
            {"top_p": 0.0},
            {"top_p": -1.0},
            {"top_p": 1e-9},
            {"top_p": 1e-45},
            {"min_p": 1.0},
            {"min_p": 7.0},
        ],
    )
    def test_at_least_one_token_survives_and_it_is_the_best(self, greedy: dict[str, float]) -> None:
        row = Row(torch.randn(300, generator=fresh_draw()), temperature=5.0)
        assert self.sample(replace(row, **greedy)) == [self.best(row)]  # type: ignore[arg-type]

    def test_greedy_takes_the_lowest_of_equal_ids(self) -> None:
        logits = torch.zeros(5003)
        logits[[4999, 4100, 2047, 2048]] = 3.0
        assert self.sample(Row(logits, temperature=0.0), Row(logits, top_k=1), Row(logits, top_p=0.0)) == [2047] * 3

    @pytest.mark.parametrize(
        ("filtered", "kept"),
        [
            ({"top_k": 3}, {2, 3, 5}),
            ({"top_k": 6}, {2, 3, 5, 6, 8, 9}),
            ({"top_p": 0.25}, {2, 3}),
            ({"top_k": 4, "top_p": 0.5}, {2, 3}),
            ({"min_p": 1.0}, {2, 3, 5, 6, 8, 9, 10, 11}),
        ],
    )
    def test_of_equal_logits_the_lowest_ids_survive(self, filtered: dict[str, float], kept: set[int]) -> None:
        logits = torch.full((12,), -math.inf)
        logits[[2, 3, 5, 6, 8, 9, 10, 11]] = -1.5
        row = replace(Row(logits), **filtered)  # type: ignore[arg-type]
        drawn = self.sample(*(replace(row, position=position) for position in range(self.steps)))
        assert set(drawn) <= kept
        # Chances are below 1e-9 that one of them is missed.
        assert self.steps < 200 or set(drawn) == kept

    @pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -1e-45, 3.4028234663852886e38, -3.4028234663852886e38])
    def test_a_boundary_at_any_float_is_found(self, value: float) -> None:
        logits = torch.full((70,), -math.inf)
        logits[10:50] = value
        logits[60:] = torch.tensor(0.0) if value < -1 else value
        flat = Row(logits, temperature=1e30)
        kept = set(range(10, 14)) if value >= -1 else set(range(60, 64))
        rows = [replace(flat, top_k=4), replace(flat, top_k=4, top_p=0.9), replace(flat, temperature=1e-5, top_k=4)]
        assert set(self.sample(*rows)) <= kept
        assert self.sample(replace(flat, top_k=11, top_p=1e-3)) == [self.best(flat)]

    @pytest.mark.parametrize("top_p", [1.0, 0.999])
    @pytest.mark.parametrize(("top_k", "kept"), [(2, {2, 2000}), (3, {2, 2000, 2048})])
    def test_of_equal_logits_far_apart_the_lowest_ids_survive(self, top_k: int, top_p: float, kept: set[int]) -> None:
        logits = torch.randn(5003, generator=fresh_draw())
        logits[[2, 2000, 2048, 4999]] = 9.0
        row = Row(logits, top_k=top_k, top_p=top_p)
        drawn = self.sample(*(replace(row, position=position) for position in range(self.steps)))
        assert set(drawn) <= kept
        assert self.steps < 200 or set(drawn) == kept

    def test_ids_of_the_padded_head_are_never_drawn(self) -> None:
        logits = torch.randn(300, generator=fresh_draw())
        logits[290:] = 50.0
        row = Row(logits, temperature=5.0)
        steps = [replace(row, position=position) for position in range(self.steps)]
        greedy = replace(row, temperature=0.0)
        assert max(self.sample(*steps, greedy, replace(row, top_k=40), vocabulary=290)) < 290
        assert self.sample(greedy, vocabulary=290) == [int(logits[:290].argmax())]

    def test_what_lies_behind_the_vocabulary_is_not_read(self) -> None:
        logits = torch.randn(300, generator=fresh_draw())
        spoilt = torch.cat([logits[:290], torch.full((10,), math.nan)])
        assert self.sample(Row(spoilt), vocabulary=290) == self.sample(Row(logits[:290]))

    def test_excluded_tokens_are_never_drawn(self) -> None:
        logits = torch.full((300,), -math.inf)
        logits[[7, 250]] = torch.tensor([1.0, 0.5])
        rows = [
            Row(logits, temperature=t, top_k=k, top_p=p) for t in (0.5, 1e30, math.inf) for k, p in ((0, 1), (9, 0.99))
        ]
        assert set(self.sample(*rows)) <= {7, 250}

    @pytest.mark.parametrize("spoiler", [math.nan, math.inf])
    def test_a_spoilt_row_yields_minus_one_and_its_neighbours_their_own(self, spoiler: float) -> None:
        draw = fresh_draw()
        good = Row(torch.randn(300, generator=draw))
        spoilt = good.logits.clone()
        spoilt[below(draw, 300)] = spoiler
        empty = torch.full((300,), -math.inf)
        drawn = self.sample(good, Row(spoilt), Row(spoilt, temperature=0.0), Row(empty), good)
        assert drawn == [*self.sample(good), -1, -1, -1, *self.sample(good)]

    def test_a_row_of_one_token_draws_it(self) -> None:
        assert self.sample(Row(torch.tensor([-3.0]), top_k=5, top_p=0.5)) == [0]

    def test_no_rows_are_no_work(self) -> None:
        none = torch.empty(0, device=self.device)
        assert sample(none.reshape(0, 9), none, none.long(), none, none, none.long(), none.long()).shape == (0,)

    def test_what_does_not_fit_is_refused(self) -> None:
        logits = torch.randn(10)
        with pytest.raises(ValueError, match="vocabulary is 11; the logits have 10 columns"):
            self.sample(Row(logits), vocabulary=11)
        one = torch.ones(1, device=self.device)
        with pytest.raises(ValueError, match=r"top_k has shape \(2,\), not \[1\]"):
            sample(logits[None].to(self.device), one, torch.ones(2), one, one, one.long(), one.long())
