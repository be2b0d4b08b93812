"""Weights drawn at random, for measuring a model of which one has only the configuration."""

from collections.abc import Callable, Iterable

import torch

from executor.models.config import DecoderConfig
from executor.models.tensors import TensorSpec


def random_tensors(
    config: DecoderConfig,
    specs: Iterable[TensorSpec],
    device: torch.device,
    dtype: torch.dtype,
    advance: Callable[[int], None],
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """A decoder's tensors, by target, made on `device` itself: matrices normally distributed with the configuration's
    deviation, norms neutral, biases zero. The same seed, device kind and dtype give the same weights.
    """
    generator = torch.Generator(device).manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for spec in specs:
        tensor = torch.zeros(spec.shape, device=device, dtype=dtype)
        if spec.kind == "matrix":
            tensor.normal_(0.0, config.initializer_range, generator=generator)
        elif spec.kind == "norm" and not config.norm.offset:
            tensor.fill_(1.0)
        tensors[spec.target] = tensor
        advance(tensor.nbytes)
    return tensors
