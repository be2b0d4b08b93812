"""What a GGUF file holds, in transformers' terms: a configuration, and tensors as the modelling code orders them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoConfig

from executor.models.errors import DamagedCheckpoint, UnsupportedModel

FLOAT32_LIMIT = 4 << 30
"""Bytes. Quantised models that take more than this in float32 become bfloat16."""

LONG_FACTORS = "rope_factors_long.weight"
SHORT_FACTORS = "rope_factors_short.weight"
LLAMA3_FACTORS = "rope_freqs.weight"

GEMMA2_27B_LAYERS = 46

SETTINGS = {
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
"""Metadata, without the architecture before it, that transformers leaves out for some architectures."""

SAME_DTYPE = {
    gguf.GGMLQuantizationType.F32: torch.float32,
    gguf.GGMLQuantizationType.F16: torch.float16,
    gguf.GGMLQuantizationType.BF16: torch.bfloat16,
}


class GgufFile:
    """One GGUF file, mapped while this object lives. Raises DamagedCheckpoint, naming it, if it is cut short or no GGUF."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = gguf.GGUFReader(path)
        except (ValueError, IndexError, KeyError) as error:
            raise DamagedCheckpoint(f"{path}: not a whole GGUF file: {error}") from error
        if self._value("split.count", 1) > 1:
            raise UnsupportedModel(f"{path}: one of several files of a split model; merge them first")
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.architecture: str = self._value("general.architecture", "")
        elements = sum(int(tensor.n_elements) for tensor in self._tensors.values())
        self._quantised = torch.float32 if elements * 4 <= FLOAT32_LIMIT else torch.bfloat16

    @property
    def names(self) -> frozenset[str]:
        """Every tensor in the file."""
        return frozenset(self._tensors)

    @property
    def read_into_configuration(self) -> frozenset[str]:
        """Tensors that are settings rather than weights: rope factors."""
        return frozenset({LONG_FACTORS, SHORT_FACTORS, LLAMA3_FACTORS})

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors as they are stored."""
        return sum(int(tensor.n_bytes) for tensor in self._tensors.values())

    @property
    def has_tokenizer(self) -> bool:
        """Whether the file holds a vocabulary."""
        return "tokenizer.ggml.tokens" in self._reader.fields

    def stored_bytes(self, place: str) -> int:
        """Bytes of a tensor as it is stored."""
        return int(self._tensors[place].n_bytes)

    def configuration(self) -> Any:
        """Transformers' configuration of the model. Raises UnsupportedModel for an architecture it does not know."""
        try:
            config = AutoConfig.from_pretrained(self.path.parent, gguf_file=self.path.name)
        except (ValueError, KeyError, TypeError) as error:
            raise UnsupportedModel(f"{self.path}: {error}") from error
        for key, attribute in SETTINGS.items():
            value = self._value(f"{self.architecture}.{key}", None)
            if value is not None and hasattr(config, attribute):
                setattr(config, attribute, value)
        if config.model_type == "gemma2" and config.num_hidden_layers == GEMMA2_27B_LAYERS:
            # The one Gemma-2 that scales by hidden size per head; the format has no field for it.
            config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads
        self._set_rope(config)
        return config

    def places(self, names: Iterable[str], num_layers: int) -> dict[str, str]:
        """The file's names of tensors, by what the modelling code calls them."""
        architectures = {value: key for key, value in gguf.MODEL_ARCH_NAMES.items()}
        known = gguf.get_tensor_name_map(architectures[self.architecture], num_layers)
        places: dict[str, str] = {}
        for name in names:
            place = known.get_name(name, try_suffixes=(".weight", ".bias"))
            if place is None:
                raise UnsupportedModel(f"{self.path}: {self.architecture} has no place for tensor {name}")
            places[name] = place
        return places

    def tensor(self, place: str) -> torch.Tensor:
        """A tensor, dequantised, with rows in the modelling code's order and norms as it adds to them."""
        stored = self._tensors[place]
        values = gguf.dequantize(stored.data, stored.tensor_type)
        tensor = torch.from_numpy(np.array(values, dtype=np.float32))
        if self.architecture == "llama" and ".attn_q." in place:
            tensor = _unpermuted(tensor, self._value("llama.attention.head_count", 1))
        elif self.architecture == "llama" and ".attn_k." in place:
            heads = self._value("llama.attention.head_count", 1)
            tensor = _unpermuted(tensor, self._value("llama.attention.head_count_kv", heads))
        elif self.architecture == "gemma2" and place.endswith("norm.weight"):
            tensor = tensor - 1
        return tensor.to(SAME_DTYPE.get(stored.tensor_type, self._quantised))

    def _set_rope(self, config: Any) -> None:
        """Rope scaling, which the format keeps partly in metadata and partly in tensors of factors."""
        prefix = f"{self.architecture}.rope.scaling."
        original = self._value(prefix + "original_context_length", config.max_position_embeddings)
        kind = self._value(prefix + "type", "none")
        if LLAMA3_FACTORS in self._tensors:
            # Llama 3's scaling, already worked out: longrope with one set of factors for all lengths divides alike.
            factors = self._factors(LLAMA3_FACTORS)
            scaling = {
                "rope_type": "longrope",
                "short_factor": factors,
                "long_factor": factors,
                "attention_factor": 1.0,
            }
        elif LONG_FACTORS in self._tensors:
            scaling = {
                "rope_type": "longrope",
                "short_factor": self._factors(SHORT_FACTORS),
                "long_factor": self._factors(LONG_FACTORS),
            }
            config.original_max_position_embeddings = original
        elif kind in ("linear", "yarn"):
            scaling = {"rope_type": kind, "factor": self._value(prefix + "factor", 1.0)}
        else:
            return
        if scaling["rope_type"] != "linear":
            scaling["original_max_position_embeddings"] = original
        config.rope_parameters = {**config.rope_parameters, **scaling}

    def _factors(self, place: str) -> list[float]:
        if place not in self._tensors:
            raise DamagedCheckpoint(f"{self.path}: tensor {place} is missing")
        return [float(value) for value in self._tensors[place].data]

    def _value(self, key: str, default: Any) -> Any:
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()


def _unpermuted(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a query or key projection with each head's two halves one after the other; the format interleaves them,
    because its programs rotate neighbouring pairs.
    """
    return tensor.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
