"""The data that describes a decoder: everything the decoder's code asks before it decides what to do."""

from dataclasses import dataclass
from typing import Literal

from executor.models.errors import UnsupportedModel

Activation = Literal["silu", "gelu", "gelu_tanh", "relu"]

MAX_QUERIES_PER_KEY = 32
MAX_HEAD_DIM = 256
HEAD_DIM_MULTIPLE = 8
"""What the attention kernels are built for."""


@dataclass(frozen=True)
class CacheShape:
    """What a model keeps for each token, and so what a pool's block looks like.

    `head_dim` is the model's own, which need not be the hidden size divided by the number of heads.
    """

    num_layers: int
    key_value_heads: int
    head_dim: int

    def pool(self, num_blocks: int, tokens_per_block: int) -> tuple[int, int, int, int, int, int]:
        """Shape of a pool: [num_blocks, num_layers, 2 (K, V), key_value_heads, tokens_per_block, head_dim]."""
        return (num_blocks, self.num_layers, 2, self.key_value_heads, tokens_per_block, self.head_dim)


@dataclass(frozen=True)
class AttentionConfig:
    """Attention of one decoder. `windows` has one entry a layer: a query sees keys less than that many positions
    back, itself included; 0 sees all. `softcap` bounds the scaled scores by softcap·tanh(x/softcap); 0 is off.
    """

    query_heads: int
    key_value_heads: int
    head_dim: int
    scale: float
    windows: tuple[int, ...]
    softcap: float = 0.0
    input_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False


@dataclass(frozen=True)
class FeedForwardConfig:
    """The block after attention: up (or gate and up, multiplied), activation, down."""

    size: int
    activation: Activation = "silu"
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True)
class NormConfig:
    """Normalisation of one decoder.

    `placement` says where a layer normalises: `before` each block (Llama), `after` each residual sum (OPT-350m), or
    `around` each block, before it and again before its sum (Gemma-2). `offset` is added to the weights (Gemma: 1).
    """

    kind: Literal["rms", "layer"] = "rms"
    eps: float = 1e-6
    offset: float = 0.0
    placement: Literal["before", "after", "around"] = "before"
    final: bool = True
    affine: bool = True


@dataclass(frozen=True)
class DecoderConfig:
    """One decoder.

    `max_length` is the largest number of tokens that a sequence may have. `embedding_size` differs from
    `hidden_size` where the embeddings are projected (OPT-350m). `position_offset` is the row of position 0 in a table
    of learned positions, None where there is no such table. `initializer_range` is the deviation of random weights.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    max_length: int
    attention: AttentionConfig
    feed_forward: FeedForwardConfig
    norm: NormConfig
    tied: bool
    embedding_size: int
    embedding_scale: float = 1.0
    position_offset: int | None = None
    logit_softcap: float = 0.0
    initializer_range: float = 0.02

    @property
    def cache_shape(self) -> CacheShape:
        """What this decoder keeps for each token."""
        return CacheShape(self.num_layers, self.attention.key_value_heads, self.attention.head_dim)


def check_attention(query_heads: int, key_value_heads: int, head_dim: int) -> None:
    """Raise UnsupportedModel unless every KV head serves the same number of query heads, at most 32, and a head has a
    multiple of 8 elements, at most 256.
    """
    heads = f"num_attention_heads is {query_heads} and num_key_value_heads {key_value_heads}"
    if key_value_heads < 1 or query_heads < 1 or query_heads % key_value_heads:
        raise UnsupportedModel(f"{heads}: the first must be a multiple of the second, and both at least 1")
    if query_heads // key_value_heads > MAX_QUERIES_PER_KEY:
        raise UnsupportedModel(f"{heads}: a KV head may serve at most {MAX_QUERIES_PER_KEY} query heads")
    if head_dim % HEAD_DIM_MULTIPLE or not 1 <= head_dim <= MAX_HEAD_DIM:
        raise UnsupportedModel(
            f"head_dim is {head_dim}: it must be a multiple of {HEAD_DIM_MULTIPLE}, at most {MAX_HEAD_DIM}"
        )
