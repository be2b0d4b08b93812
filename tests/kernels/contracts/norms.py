from __future__ import annotations

import pytest
import torch

from kernels.norms import layer_norm, rms_norm
from kernels.reference import norms as reference
from tests.kernels.contracts import TOLERANCE, below, fresh_draw, poison


class NormsContract:
    device = "cpu"
    widths: tuple[int, ...] = (64, 576, 1001, 4096)

    def rows(self, draw: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return (torch.randn(*shape, generator=draw) * 3 + 0.5).to(self.device, dtype)

    @staticmethod
    def assert_close(result: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), expected, rtol=TOLERANCE[dtype], atol=2 * TOLERANCE[dtype])

    @pytest.mark.parametrize("dtype", TOLERANCE)
    def test_rms_norm_equals_the_reference(self, dtype: torch.dtype) -> None:
        draw = fresh_draw()
        for width in self.widths:
            x, weight = self.rows(draw, 1 + below(draw, 5), width, dtype=dtype), self.rows(draw, width, dtype=dtype)
            for offset in (0.0, 1.0):
                out = poison(torch.empty_like(x))
                result = rms_norm(x, weight, 1e-6, offset=offset, out=out)
                assert result is out
                self.assert_close(result, reference.rms_norm(x, weight, 1e-6, offset), dtype)

    @pytest.mark.parametrize("dtype", TOLERANCE)
    def test_layer_norm_equals_the_reference(self, dtype: torch.dtype) -> None:
        draw = fresh_draw()
        for width in self.widths:
            x, weight, bias = (self.rows(draw, *shape, dtype=dtype) for shape in ((3, width), (width,), (width,)))
            self.assert_close(layer_norm(x, weight, bias, 1e-5), reference.layer_norm(x, weight, bias, 1e-5), dtype)

    @pytest.mark.parametrize("dtype", TOLERANCE)
    @pytest.mark.parametrize("centred", [False, True])
    def test_a_residual_is_added_and_its_rounded_sum_is_what_is_normalised(
        self, centred: bool, dtype: torch.dtype
    ) -> None:
        draw = fresh_draw()
        x, residual = (self.rows(draw, 4, 320, dtype=dtype) for _ in range(2))
        weight, bias = (self.rows(draw, 320, dtype=dtype) for _ in range(2))
        before = x.clone(), residual.clone()
        if centred:
            result, total = layer_norm(x, weight, bias, 1e-5, residual)
            expected = reference.layer_norm(total, weight, bias, 1e-5)
        else:
            result, total = rms_norm(x, weight, 1e-5, residual)
            expected = reference.rms_norm(total, weight, 1e-5)
        self.assert_close(total, x.double() + residual.double(), dtype)
        self.assert_close(result, expected, dtype)
        assert torch.equal(x, before[0])
        assert torch.equal(residual, before[1])

    def test_each_head_of_a_merged_projection_is_normalised_in_place(self) -> None:
        draw = fresh_draw()
        merged = self.rows(draw, 5, 8 * 80)
        before = merged.clone()
        heads, weight = merged[:, 80 : 4 * 80].unflatten(1, (3, 80)), self.rows(draw, 80)
        expected = reference.rms_norm(heads, weight, 1e-6)
        rms_norm(heads, weight, 1e-6, out=heads)
        self.assert_close(heads, expected, torch.float32)
        assert torch.equal(merged[:, :80], before[:, :80])
        assert torch.equal(merged[:, 4 * 80 :], before[:, 4 * 80 :])

    def test_a_row_has_the_same_bits_in_any_batch(self) -> None:
        draw = fresh_draw()
        for width in self.widths:
            x, residual = self.rows(draw, 9, width), self.rows(draw, 9, width)
            weight, bias = self.rows(draw, width), self.rows(draw, width)
            together = rms_norm(x, weight, 1e-6, residual)[0], layer_norm(x, weight, bias, 1e-6)
            row = below(draw, 9)
            alone = x[row : row + 1].clone(), residual[row : row + 1].clone()
            assert torch.equal(together[0][row], rms_norm(alone[0], weight, 1e-6, alone[1])[0][0])
            assert torch.equal(together[1][row], layer_norm(alone[0], weight, bias, 1e-6)[0])

    def test_no_rows_are_no_work(self) -> None:
        weight = self.rows(fresh_draw(), 64)
        assert rms_norm(torch.empty(0, 64, device=self.device), weight, 1e-6).shape == (0, 64)

    def test_what_does_not_fit_is_refused_by_shape(self) -> None:
        draw = fresh_draw()
        x, weight = self.rows(draw, 2, 64), self.rows(draw, 64)
        with pytest.raises(ValueError, match=r"weight \(32,\) does not fit rows of \(2, 64\)"):
            rms_norm(x, weight[:32], 1e-6)
        with pytest.raises(ValueError, match=r"residual has shape \(1, 64\)"):
            rms_norm(x, weight, 1e-6, x[:1])
