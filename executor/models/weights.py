"""A decoder's weights, on its device, in the form in which it uses them."""

from dataclasses import dataclass

import torch

from executor.models.config import DecoderConfig, NormConfig
from executor.models.linear import linear
from kernels.norms import layer_norm, rms_norm


@dataclass(frozen=True)
class Linear:
    """A matrix [outputs, inputs] and, perhaps, a bias [outputs]."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """From rows [rows, inputs] to [rows, outputs]."""
        return linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class Norm:
    """A normalisation over the last dimension, as its configuration says."""

    config: NormConfig
    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The rows of x [rows, size], normalised."""
        if self.bias is not None:
            return layer_norm(x, self.weight, self.bias, self.config.eps)
        return rms_norm(x, self.weight, self.config.eps, offset=self.config.offset)

    def after_sum(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(x + residual, normalised; x + residual)."""
        if self.bias is not None:
            return layer_norm(x, self.weight, self.bias, self.config.eps, residual=residual)
        return rms_norm(x, self.weight, self.config.eps, residual=residual, offset=self.config.offset)


@dataclass(frozen=True)
class LayerWeights:
    """One layer. The norms that a model lacks are None."""

    attention_norm: Norm
    qkv: Linear
    query_norm: Norm | None
    key_norm: Norm | None
    output: Linear
    after_attention_norm: Norm | None
    feed_forward_norm: Norm
    up: Linear
    down: Linear
    after_feed_forward_norm: Norm | None


@dataclass(frozen=True)
class DecoderWeights:
    """All of a decoder's weights. The head is the embedding's own tensor where the two are tied."""

    embedding: torch.Tensor
    positions: torch.Tensor | None
    project_in: Linear | None
    layers: tuple[LayerWeights, ...]
    final_norm: Norm | None
    project_out: Linear | None
    head: Linear

    @classmethod
    def assemble(cls, config: DecoderConfig, tensors: dict[str, torch.Tensor]) -> "DecoderWeights":
        """From tensors by the names of `tensor_specs`. Those stay in use: the caller must not change them."""
        parts = _Parts(config, tensors)
        return cls(
            embedding=tensors["embedding"],
            positions=tensors.get("positions"),
            project_in=parts.plain("project_in"),
            layers=tuple(parts.layer(index) for index in range(config.num_layers)),
            final_norm=parts.norm("final_norm") if config.norm.final else None,
            project_out=parts.plain("project_out"),
            head=Linear(tensors.get("head", tensors["embedding"]), None),
        )


class _Parts:
    def __init__(self, config: DecoderConfig, tensors: dict[str, torch.Tensor]) -> None:
        self._config = config
        self._tensors = tensors

    def plain(self, name: str) -> Linear | None:
        weight = self._tensors.get(name)
        return None if weight is None else Linear(weight, None)

    def linear(self, name: str) -> Linear:
        return Linear(self._tensors[f"{name}.weight"], self._tensors.get(f"{name}.bias"))

    def norm(self, name: str) -> Norm:
        weight = self._tensors.get(f"{name}.weight")
        bias = self._tensors.get(f"{name}.bias")
        if weight is None:
            # A norm without parameters of its own: the kernels take the neutral ones.
            like = self._tensors["embedding"]
            weight = torch.ones(self._config.hidden_size, dtype=like.dtype, device=like.device)
            bias = torch.zeros_like(weight)
        return Norm(self._config.norm, weight, bias)

    def head_norm(self, name: str) -> Norm:
        # Over each head's elements, whatever the norms around the blocks are.
        return Norm(NormConfig("rms", self._config.norm.eps), self._tensors[f"{name}.weight"], None)

    def layer(self, index: int) -> LayerWeights:
        prefix = f"layers.{index}."
        heads = self._config.attention.query_key_norm
        around = self._config.norm.placement == "around"
        return LayerWeights(
            attention_norm=self.norm(prefix + "attention_norm"),
            qkv=self.linear(prefix + "qkv"),
            query_norm=self.head_norm(prefix + "query_norm") if heads else None,
            key_norm=self.head_norm(prefix + "key_norm") if heads else None,
            output=self.linear(prefix + "output"),
            after_attention_norm=self.norm(prefix + "after_attention_norm") if around else None,
            feed_forward_norm=self.norm(prefix + "feed_forward_norm"),
            up=self.linear(prefix + "up"),
            down=self.linear(prefix + "down"),
            after_feed_forward_norm=self.norm(prefix + "after_feed_forward_norm") if around else None,
        )
