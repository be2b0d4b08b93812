"""Tiny GGUF files, written as the format's own converters do it."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import quantize

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "phi3": gguf.MODEL_ARCH.PHI3,
}
WORDS = ["Ġt", "he", "Ġthe", "in", "Ġa"]


def write_gguf(
    path: Path,
    model: Any,
    *,
    quantisation: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    extra: dict[str, np.ndarray] | None = None,
    without: str = "",
    tokenizer: bool = True,
) -> None:
    """Write transformers' model to a GGUF file, matrices in `quantisation`; `extra` tensors as well, and `without` one."""
    config = model.config
    arch = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    _write_settings(writer, config)
    if tokenizer:
        _write_tokenizer(writer, config.vocab_size)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        place = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert place is not None
        if place == without:
            continue
        values = _as_stored(config, place, tensor).numpy()
        kind = quantisation if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(place, quantize(values, kind), raw_dtype=kind)
    for place, values in (extra or {}).items():
        writer.add_tensor(place, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _as_stored(config: Any, place: str, tensor: torch.Tensor) -> torch.Tensor:
    heads = {"attn_q.": config.num_attention_heads, "attn_k.": config.num_key_value_heads}
    count = next((count for part, count in heads.items() if part in place), 0)
    if config.model_type == "llama" and count:
        # Neighbouring rows become the pairs that are rotated.
        halves = tensor.reshape(count, 2, tensor.shape[0] // count // 2, *tensor.shape[1:])
        return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()
    if config.model_type == "gemma2" and place.endswith("norm.weight"):
        return tensor + 1
    return tensor.contiguous()


def _write_settings(writer: gguf.GGUFWriter, config: Any) -> None:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_vocab_size(config.vocab_size)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _write_tokenizer(writer: gguf.GGUFWriter, size: int) -> None:
    """A byte-level vocabulary: printable bytes, a few merges, and fillers."""
    letters = [chr(code) for code in range(33, 127)] + ["Ġ"]
    words = ["<|end|>", *letters, *WORDS]
    words += [f"<|filler{number}|>" for number in range(size - len(words))]
    kinds = [gguf.TokenType.CONTROL if word.startswith("<|") else gguf.TokenType.NORMAL for word in words]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(["Ġ t", "h e", "Ġt he", "i n", "Ġ a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
