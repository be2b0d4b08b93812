"""The families of models that the decoder covers: how each one's configuration reads, and what it calls its tensors.

A family is one function from a transformers configuration to a `DecoderConfig`, and a `TensorNames`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from executor.models.config import (
    Activation,
    AttentionConfig,
    DecoderConfig,
    FeedForwardConfig,
    NormConfig,
    check_attention,
)
from executor.models.errors import UnsupportedModel
from executor.models.rope import longest_sequence, rope_parameters

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "relu": "relu",
}


@dataclass(frozen=True)
class TensorNames:
    """What a family's checkpoints call the decoder's tensors, without `.weight` and `.bias`.

    `layer` is a format string over the layer's number; the names from `attention_norm` on stand behind it. `query`,
    `key` and `value` name one fused tensor where they are the same name, and so do `gate` and `up`.
    """

    embedding: str = "model.embed_tokens"
    positions: str = ""
    project_in: str = ""
    project_out: str = ""
    final_norm: str = "model.norm"
    head: str = "lm_head"
    layer: str = "model.layers.{}."
    attention_norm: str = "input_layernorm"
    query: str = "self_attn.q_proj"
    key: str = "self_attn.k_proj"
    value: str = "self_attn.v_proj"
    query_norm: str = "self_attn.q_norm"
    key_norm: str = "self_attn.k_norm"
    output: str = "self_attn.o_proj"
    after_attention_norm: str = ""
    feed_forward_norm: str = "post_attention_layernorm"
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    after_feed_forward_norm: str = ""


LLAMA_NAMES = TensorNames()

PHI3_NAMES = TensorNames(
    query="self_attn.qkv_proj",
    key="self_attn.qkv_proj",
    value="self_attn.qkv_proj",
    gate="mlp.gate_up_proj",
    up="mlp.gate_up_proj",
)

GEMMA2_NAMES = TensorNames(
    after_attention_norm="post_attention_layernorm",
    feed_forward_norm="pre_feedforward_layernorm",
    after_feed_forward_norm="post_feedforward_layernorm",
)

OPT_NAMES = TensorNames(
    embedding="model.decoder.embed_tokens",
    positions="model.decoder.embed_positions",
    project_in="model.decoder.project_in",
    project_out="model.decoder.project_out",
    final_norm="model.decoder.final_layer_norm",
    layer="model.decoder.layers.{}.",
    attention_norm="self_attn_layer_norm",
    output="self_attn.out_proj",
    feed_forward_norm="final_layer_norm",
    gate="",
    up="fc1",
    down="fc2",
)


def head_dim(source: Any) -> int:
    """The head size that a transformers configuration states, or else the hidden size divided by the heads."""
    stated = getattr(source, "head_dim", None)
    return int(stated or source.hidden_size // source.num_attention_heads)


def activation(name: str) -> Activation:
    """The decoder's name of an activation. Raises UnsupportedModel for one it has not."""
    if name not in ACTIVATIONS:
        raise UnsupportedModel(f"activation {name!r} is not one of {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


def layer_windows(source: Any) -> tuple[int, ...]:
    """Windows by `layer_types`: `sliding_attention` layers see `sliding_window` tokens, `full_attention` all."""
    window = int(source.sliding_window or 0)
    sizes = {"full_attention": 0, "sliding_attention": window}
    unknown = sorted(set(source.layer_types) - set(sizes))
    if unknown:
        raise UnsupportedModel(f"layer type {unknown[0]!r} is not one of {', '.join(sizes)}")
    return tuple(sizes[kind] for kind in source.layer_types)


def even_windows(source: Any) -> tuple[int, ...]:
    """The same window in each layer, from `sliding_window` where the configuration has it."""
    return (int(getattr(source, "sliding_window", None) or 0),) * int(source.num_hidden_layers)


def gated_decoder(
    source: Any,
    *,
    windows: tuple[int, ...],
    input_bias: bool = False,
    output_bias: bool = False,
    feed_forward_bias: bool = False,
    query_key_norm: bool = False,
    scale: float | None = None,
) -> DecoderConfig:
    """What the relatives of Llama have in common: rope, RMS norms before each block, and a gated feed-forward."""
    size = head_dim(source)
    check_attention(source.num_attention_heads, source.num_key_value_heads, size)
    attention = AttentionConfig(
        query_heads=source.num_attention_heads,
        key_value_heads=source.num_key_value_heads,
        head_dim=size,
        scale=size**-0.5 if scale is None else scale,
        windows=windows,
        softcap=float(getattr(source, "attn_logit_softcapping", None) or 0.0),
        input_bias=input_bias,
        output_bias=output_bias,
        query_key_norm=query_key_norm,
    )
    act = getattr(source, "hidden_activation", None) or source.hidden_act
    return DecoderConfig(
        family=source.model_type,
        vocab_size=source.vocab_size,
        hidden_size=source.hidden_size,
        num_layers=source.num_hidden_layers,
        max_length=longest_sequence(rope_parameters(source), source.max_position_embeddings),
        attention=attention,
        feed_forward=FeedForwardConfig(source.intermediate_size, activation(act), bias=feed_forward_bias),
        norm=NormConfig("rms", source.rms_norm_eps),
        tied=bool(source.tie_word_embeddings),
        embedding_size=source.hidden_size,
        initializer_range=source.initializer_range,
    )


def llama(source: Any) -> DecoderConfig:
    """Llama 1 to 3, SmolLM2 and the many checkpoints with the same code."""
    bias = bool(source.attention_bias)
    return gated_decoder(
        source,
        windows=(0,) * source.num_hidden_layers,
        input_bias=bias,
        output_bias=bias,
        feed_forward_bias=bool(source.mlp_bias),
    )


def mistral(source: Any) -> DecoderConfig:
    """Mistral: Llama with one window for all layers."""
    return gated_decoder(source, windows=even_windows(source))


def qwen2(source: Any) -> DecoderConfig:
    """Qwen2 and 2.5: biases on query, key and value; windows from a certain layer on."""
    return gated_decoder(source, windows=layer_windows(source), input_bias=True)


def qwen3(source: Any) -> DecoderConfig:
    """Qwen3: norms over each head's query and key, and a head size of its own."""
    bias = bool(source.attention_bias)
    return gated_decoder(source, windows=layer_windows(source), input_bias=bias, output_bias=bias, query_key_norm=True)


def phi3(source: Any) -> DecoderConfig:
    """Phi-3 and Phi-4-mini: fused projections, longrope, rope over a part of each head."""
    return gated_decoder(source, windows=even_windows(source))


def gemma2(source: Any) -> DecoderConfig:
    """Gemma-2: capped scores and logits, every other layer with a window, norms around each block, weights around 1."""
    if getattr(source, "use_bidirectional_attention", None):
        raise UnsupportedModel("use_bidirectional_attention is set: a token that sees later ones cannot be cached")
    bias = bool(source.attention_bias)
    base = gated_decoder(
        source,
        windows=layer_windows(source),
        input_bias=bias,
        output_bias=bias,
        scale=source.query_pre_attn_scalar**-0.5,
    )
    return replace(
        base,
        norm=NormConfig("rms", source.rms_norm_eps, offset=1.0, placement="around"),
        embedding_scale=source.hidden_size**0.5,
        logit_softcap=float(source.final_logit_softcapping or 0.0),
    )


def opt(source: Any) -> DecoderConfig:
    """OPT, the PagedAttention paper's model: learned positions, biases, LayerNorm, no gate."""
    heads, layers = source.num_attention_heads, source.num_hidden_layers
    size = source.hidden_size // heads
    check_attention(heads, heads, size)
    bias = bool(source.enable_bias)
    before = bool(source.do_layer_norm_before)
    return DecoderConfig(
        family=source.model_type,
        vocab_size=source.vocab_size,
        hidden_size=source.hidden_size,
        num_layers=layers,
        max_length=source.max_position_embeddings,
        attention=AttentionConfig(heads, heads, size, size**-0.5, (0,) * layers, input_bias=bias, output_bias=bias),
        feed_forward=FeedForwardConfig(source.ffn_dim, activation(source.activation_function), gated=False, bias=bias),
        norm=NormConfig(
            "layer",
            1e-5,
            placement="before" if before else "after",
            final=before and not source._remove_final_layer_norm,
            affine=bool(source.layer_norm_elementwise_affine),
        ),
        tied=bool(source.tie_word_embeddings),
        embedding_size=source.word_embed_proj_dim,
        position_offset=2,
        initializer_range=source.init_std,
    )


@dataclass(frozen=True)
class Family:
    """One family: how to read its configuration, and the names of its tensors."""

    read: Callable[[Any], DecoderConfig]
    names: TensorNames


FAMILIES: dict[str, Family] = {
    "llama": Family(llama, LLAMA_NAMES),
    "mistral": Family(mistral, LLAMA_NAMES),
    "qwen2": Family(qwen2, LLAMA_NAMES),
    "qwen3": Family(qwen3, LLAMA_NAMES),
    "phi3": Family(phi3, PHI3_NAMES),
    "gemma2": Family(gemma2, GEMMA2_NAMES),
    "opt": Family(opt, OPT_NAMES),
}
