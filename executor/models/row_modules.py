"""Stand-ins for a model's own modules, whose rows do not depend on how many others there are.

torch's own, on a CPU, choose their code by the number of rows (`Linear`), or round the last elements of a piece of memory
otherwise than the rest (`SiLU`, `GELU`).
"""

import torch
from torch import nn
from transformers.activations import GELUActivation, GELUTanh, SiLUActivation

from executor.models.linear import linear
from kernels.activations import gelu


class RowLinear(nn.Linear):
    """`nn.Linear` by `executor.models.linear`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Linear's name
        """From [..., in_features] to [..., out_features]."""
        return linear(input.flatten(0, -2), self.weight, self.bias).unflatten(0, input.shape[:-1])


class RowSiLU(nn.SiLU):
    """`nn.SiLU`, put together from operations that round alike everywhere."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.SiLU's name
        """X · sigmoid(x), computed in float32."""
        wide = input.float()
        return (wide / (1.0 + torch.exp(-wide))).to(input.dtype)


class RowGELU(GELUActivation):
    """GELU by the error function."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name in transformers
        """X · Φ(x)."""
        return gelu(input.flatten(0, -2), approximate="none").view(input.shape)


class RowGELUTanh(GELUTanh):
    """GELU by the hyperbolic tangent."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name in transformers
        """X · Φ(x), approximately."""
        return gelu(input.flatten(0, -2), approximate="tanh").view(input.shape)


STAND_INS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: RowLinear,
    nn.SiLU: RowSiLU,
    SiLUActivation: RowSiLU,
    GELUActivation: RowGELU,
    GELUTanh: RowGELUTanh,
}


def make_rows_independent(model: nn.Module) -> None:
    """Put the stand-ins in the place of every module of exactly their kind; weights stay where they are."""
    for module in model.modules():
        if type(module) in STAND_INS:
            module.__class__ = STAND_INS[type(module)]
