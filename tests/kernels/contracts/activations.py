from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels.activations import gelu, gelu_mul, relu, silu_mul
from kernels.reference import activations as reference
from tests.kernels.contracts import TOLERANCE, below, fresh_draw

Activation = Callable[[torch.Tensor], torch.Tensor]

GATED: list[tuple[Activation, Activation]] = [
    (silu_mul, reference.silu),
    (lambda x: gelu_mul(x, "tanh"), reference.gelu_tanh),
    (lambda x: gelu_mul(x, "none"), reference.gelu),
]


class ActivationsContract:
    device = "cpu"

    def rows(self, draw: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return (torch.randn(*shape, generator=draw) * 4).to(self.device, dtype)

    @pytest.mark.parametrize("dtype", TOLERANCE)
    @pytest.mark.parametrize(("activate", "expected"), GATED)
    def test_a_gate_equals_the_reference(self, activate: Activation, expected: Activation, dtype: torch.dtype) -> None:
        draw = fresh_draw()
        width = 1 + below(draw, 1500)
        x = self.rows(draw, 1 + below(draw, 4), 2 * width, dtype=dtype)
        result = activate(x)
        assert result.dtype == dtype
        wanted = expected(x[:, :width]) * x[:, width:].double()
        torch.testing.assert_close(result.double(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

    def test_gelu_and_relu_equal_the_reference(self) -> None:
        x = self.rows(fresh_draw(), 3, 1100)
        torch.testing.assert_close(gelu(x).double(), reference.gelu(x), rtol=3e-6, atol=3e-6)
        torch.testing.assert_close(gelu(x, "tanh").double(), reference.gelu_tanh(x), rtol=3e-6, atol=3e-6)
        assert torch.equal(relu(x), x.clamp_min(0))

    @pytest.mark.parametrize(("activate", "expected"), GATED)
    def test_large_gates_neither_overflow_nor_become_nan(self, activate: Activation, expected: Activation) -> None:
        gate = torch.tensor([[-1e4, -200.0, -88.0, -20.0, 0.0, 20.0, 88.0, 200.0, 1e4]], device=self.device)
        result = activate(torch.cat([gate, torch.ones_like(gate)], dim=1))
        torch.testing.assert_close(result.double(), expected(gate), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(("activate", "expected"), GATED)
    def test_a_row_has_the_same_bits_in_any_batch(self, activate: Activation, expected: Activation) -> None:
        draw = fresh_draw()
        # More than 32,768 numbers: from there on torch cuts a tensor among its threads.
        x = self.rows(draw, 67, 2 * 1001)
        together = activate(x)
        for row in (0, below(draw, 67), 66):
            assert torch.equal(activate(x[row : row + 1].clone())[0], together[row])

    def test_no_rows_are_no_work(self) -> None:
        assert silu_mul(torch.empty(0, 64, device=self.device)).shape == (0, 32)

    def test_what_does_not_fit_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not \\[tokens, 2 \\* width\\]"):
            silu_mul(torch.empty(2, 7, device=self.device))
        with pytest.raises(ValueError, match="approximate is 'fast'"):
            gelu_mul(torch.empty(2, 8, device=self.device), "fast")  # type: ignore[arg-type]
