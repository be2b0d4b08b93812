"""Tiny checkpoints of each family, made with transformers from small configurations and random weights."""

from pathlib import Path
from typing import Any

import torch
import transformers

VOCABULARY = 131
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5, 3.0, 4.0],
    "long_factor": [1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0],
}

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
SMALL_OPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "ffn_dim": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 1,
}

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SMALL),
    "llama-biases": ("Llama", {**SMALL, "attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    "smollm2": (
        "Llama",
        {**SMALL, "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "tie_word_embeddings": True},
    ),
    "mistral": ("Mistral", {**SMALL, "sliding_window": 21}),
    "qwen2": ("Qwen2", {**SMALL, "hidden_size": 112, "num_attention_heads": 7, "num_key_value_heads": 1}),
    "qwen2-window": ("Qwen2", {**SMALL, "use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": True}),
    "phi3": ("Phi3", {**SMALL, "sliding_window": 40, "original_max_position_embeddings": 128}),
    "phi3-longrope": (
        "Phi3",
        {**SMALL, "original_max_position_embeddings": 32, "rope_parameters": {**LONGROPE, "rope_theta": 10000.0}},
    ),
    "gemma2": (
        "Gemma2",
        {
            **SMALL,
            "head_dim": 24,
            "sliding_window": 20,
            "query_pre_attn_scalar": 20,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 2.0,
            "tie_word_embeddings": True,
        },
    ),
    "opt": ("OPT", SMALL_OPT),
    "opt-350m": ("OPT", {**SMALL_OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 32}),
    "opt-plain": ("OPT", {**SMALL_OPT, "enable_bias": False, "layer_norm_elementwise_affine": False}),
}


def configuration(name: str, **changes: Any) -> Any:
    """transformers' configuration of a tiny model, with changes."""
    kind, values = CONFIGURATIONS[name]
    return getattr(transformers, f"{kind}Config")(**{**values, **changes})


def reference_model(config: Any, seed: int = 0) -> Any:
    """transformers' own model with every weight random, norms and biases too, so that none can be left out unseen."""
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.data.normal_(0.0, 0.1, generator=generator)
        if "norm" in name and name.endswith("weight") and config.model_type != "gemma2":
            parameter.data += 1.0
    model.tie_weights()
    return model.requires_grad_(False)


def saved(config: Any, folder: Path, **options: Any) -> Any:
    """Save a tiny model with random weights into a folder, as safetensors, and return it. `options` go to the saver."""
    model = reference_model(config)
    model.save_pretrained(folder, **options)
    return model


def reference_logits(model: Any, ids: list[int]) -> torch.Tensor:
    """transformers' logits [tokens, vocabulary] of a whole sequence."""
    logits: torch.Tensor = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    return logits


def random_ids(count: int, seed: int = 0) -> list[int]:
    """Token ids, the same for the same seed."""
    return torch.randint(3, VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
