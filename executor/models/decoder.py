"""One decoder, described by data, for Llama and its relatives."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from executor.models.batch import AttentionBatch
from executor.models.config import Activation, CacheShape, DecoderConfig
from executor.models.layer_cache import LayerCache
from executor.models.rope import Rope, RopeRows
from executor.models.weights import DecoderWeights, LayerWeights
from kernels.activations import gelu, gelu_mul, relu, silu_mul

GATED: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": silu_mul,
    "gelu": partial(gelu_mul, approximate="none"),
    "gelu_tanh": partial(gelu_mul, approximate="tanh"),
}
"""Of gate and up side by side [rows, 2 · size]: activation(gate) · up [rows, size]."""

PLAIN: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": partial(gelu, approximate="none"),
    "gelu_tanh": partial(gelu, approximate="tanh"),
    "relu": relu,
}


class Decoder:
    """A `PagedModel` that runs any `DecoderConfig` over weights it holds for as long as it lives."""

    recordable = True

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, rope: Rope | None) -> None:
        self.config = config
        self.weights = weights
        self.rope = rope
        self.cache_shape: CacheShape = config.cache_shape
        self.vocab_size = config.vocab_size
        self.max_length = config.max_length
        self.device = weights.embedding.device
        self.dtype = weights.embedding.dtype
        # Rounded to the weights' dtype, as the model was trained.
        self._embedding_scale = float(torch.tensor(config.embedding_scale, dtype=self.dtype))
        self.rope_depends_on_length = rope is not None and rope.depends_on_length

    def rope_regime(self, length: int) -> int:
        """See `PagedModel`."""
        return 0 if self.rope is None else self.rope.regime(length)

    def brief(self) -> "Decoder":
        """See `PagedModel`: the first layers, until there is one of each window. The very first normalises in another way
        than those behind it.
        """
        windows, layers = self.config.attention.windows, self.config.num_layers
        count = next(some for some in range(min(2, layers), layers + 1) if set(windows[:some]) == set(windows))
        config = replace(self.config, num_layers=count)
        return Decoder(config, replace(self.weights, layers=self.weights.layers[:count]), self.rope)

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, batch: AttentionBatch, pool: torch.Tensor
    ) -> torch.Tensor:
        """See `PagedModel`."""
        hidden = self._embed(ids, positions)
        rope = None if self.rope is None else self.rope.rows(positions, batch)
        caches = [LayerCache(pool, layer, batch) for layer in range(self.config.num_layers)]
        if self.config.norm.placement == "after":
            for layer, cache in zip(self.weights.layers, caches, strict=True):
                hidden = self._layer_normalised_after(layer, hidden, cache, rope)
            return hidden
        residual: torch.Tensor | None = None
        for layer, cache in zip(self.weights.layers, caches, strict=True):
            hidden, residual = self._layer(layer, hidden, residual, cache, rope)
        assert residual is not None
        final = self.weights.final_norm
        return hidden + residual if final is None else final.after_sum(hidden, residual)[0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See `PagedModel`."""
        if self.weights.project_out is not None:
            hidden = self.weights.project_out(hidden)
        logits = self.weights.head(hidden).float()
        cap = self.config.logit_softcap
        return torch.tanh(logits / cap) * cap if cap else logits

    def _embed(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        hidden = self.weights.embedding[ids]
        if self._embedding_scale != 1.0:
            hidden = hidden * self._embedding_scale
        if self.weights.project_in is not None:
            hidden = self.weights.project_in(hidden)
        if self.weights.positions is not None:
            assert self.config.position_offset is not None
            hidden = hidden + self.weights.positions[positions + self.config.position_offset]
        return hidden

    def _layer(
        self,
        layer: LayerWeights,
        hidden: torch.Tensor,
        residual: torch.Tensor | None,
        cache: LayerCache,
        rope: RopeRows | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Norm before each block; the sum with the residual is left to the next norm, which does both in one pass."""
        if residual is None:
            normed, residual = layer.attention_norm(hidden), hidden
        else:
            normed, residual = layer.attention_norm.after_sum(hidden, residual)
        attended = self._attention(layer, normed, cache, rope)
        if layer.after_attention_norm is not None:
            attended = layer.after_attention_norm(attended)
        normed, residual = layer.feed_forward_norm.after_sum(attended, residual)
        hidden = self._feed_forward(layer, normed)
        if layer.after_feed_forward_norm is not None:
            hidden = layer.after_feed_forward_norm(hidden)
        return hidden, residual

    def _layer_normalised_after(
        self, layer: LayerWeights, hidden: torch.Tensor, cache: LayerCache, rope: RopeRows | None
    ) -> torch.Tensor:
        hidden, _ = layer.attention_norm.after_sum(self._attention(layer, hidden, cache, rope), hidden)
        return layer.feed_forward_norm.after_sum(self._feed_forward(layer, hidden), hidden)[0]

    def _attention(
        self, layer: LayerWeights, x: torch.Tensor, cache: LayerCache, rope: RopeRows | None
    ) -> torch.Tensor:
        config = self.config.attention
        heads = (config.query_heads, config.key_value_heads, config.key_value_heads)
        qkv = layer.qkv(x).view(len(x), sum(heads), config.head_dim)
        query, key, value = qkv.split(heads, dim=1)
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = layer.query_norm(query), layer.key_norm(key)
        query = cache.write(query, key, value, rope)
        attended = cache.attend(query, config.scale, config.windows[cache.layer], config.softcap)
        return layer.output(attended.view(len(x), -1))

    def _feed_forward(self, layer: LayerWeights, x: torch.Tensor) -> torch.Tensor:
        config = self.config.feed_forward
        up = layer.up(x)
        return layer.down(GATED[config.activation](up) if config.gated else PLAIN[config.activation](up))
