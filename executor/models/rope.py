"""Rotary position embedding, with every scaling that transformers computes.

The rotations themselves (inverse frequencies and attention factor) are transformers' own; what is added is that a
sequence's factors come from that sequence's own length, not from the longest one in the batch.
"""

from dataclasses import dataclass
from typing import Any

import torch

from executor.models.batch import AttentionBatch
from executor.models.errors import UnsupportedModel

DEFAULT = "default"
PARTIAL_BY_DEFAULT = {"phi3"}
"""Families that rotate a part of each head (`partial_rotary_factor`) with the unscaled rope too."""


def rope_functions() -> dict[str, Any]:
    """Transformers' functions, by rope type: from a configuration to inverse frequencies and attention factor."""
    # Imported only where one is needed: the unscaled rope needs none.
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    return dict(ROPE_INIT_FUNCTIONS)


def rope_parameters(source: Any) -> dict[str, Any]:
    """The rope parameters of a transformers configuration, `rope_type` among them, whatever spelling it was read from.

    Raises UnsupportedModel for a type that transformers does not know, and for parameters that differ by layer.
    """
    kinds = rope_parameters_by_layer(source)
    if len(kinds) != 1:
        raise UnsupportedModel(f"rope_parameters is {source.rope_parameters}: one set for all layers is needed")
    return kinds[0]


def rope_parameters_by_layer(source: Any) -> list[dict[str, Any]]:
    """As `rope_parameters`, for each kind of layer that has its own; nothing for a model without rope."""
    parameters = getattr(source, "rope_parameters", None) or {}
    nested = bool(parameters) and all(isinstance(value, dict) for value in parameters.values())
    kinds = list(parameters.values()) if nested else [parameters] if parameters else []
    return [_known(dict(kind)) for kind in kinds]


def _known(parameters: dict[str, Any]) -> dict[str, Any]:
    rope_type = parameters.setdefault("rope_type", DEFAULT)
    if rope_type != DEFAULT and rope_type not in rope_functions():
        known = ", ".join([DEFAULT, *rope_functions()])
        raise UnsupportedModel(f"rope type {rope_type!r} is not one of {known}")
    return parameters


def longest_sequence(parameters: dict[str, Any], max_position_embeddings: int) -> int:
    """Tokens that a sequence may have by a model's rope: `max_position_embeddings`, stretched by linear and dynamic
    scaling, and by yarn where `factor` times the original length is more.
    """
    factor = float(parameters.get("factor") or 1.0)
    if parameters["rope_type"] in ("linear", "dynamic"):
        return int(max_position_embeddings * factor)
    if parameters["rope_type"] == "yarn":
        return max(max_position_embeddings, int(parameters["original_max_position_embeddings"] * factor))
    return max_position_embeddings


def longest_unscaled_sequence(parameters: dict[str, Any], max_position_embeddings: int) -> int:
    """Tokens up to which a sequence's length does not change its rotations."""
    if parameters["rope_type"] == "longrope":
        return int(parameters["original_max_position_embeddings"])
    return max_position_embeddings


def inverse_frequencies(source: Any, length: int | None = None) -> tuple[torch.Tensor, float]:
    """Inverse frequencies [rotary_dim / 2] (float32) and attention factor for a sequence of `length` tokens.

    Without a length: as transformers computes them when it makes the model.
    """
    parameters = rope_parameters(source)
    if parameters["rope_type"] == DEFAULT:
        head_dim = getattr(source, "head_dim", None) or source.hidden_size // source.num_attention_heads
        partial = parameters.get("partial_rotary_factor", 1.0) if source.model_type in PARTIAL_BY_DEFAULT else 1.0
        dim = int(head_dim * partial)
        return 1.0 / (parameters["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float) / dim)), 1.0
    compute = rope_functions()[parameters["rope_type"]]
    # transformers hands its function a tensor, whose arithmetic is float32; a Python number would be computed in
    # float64 and round to other frequencies.
    frequencies, factor = compute(source, torch.device("cpu"), seq_len=None if length is None else torch.tensor(length))
    return frequencies.float(), float(factor)


@dataclass(frozen=True)
class RopeRows:
    """Where a step's rotations stand: token t is rotated by cos[rows[t]] and sin[rows[t]], both [P, rotary_dim / 2]."""

    cos: torch.Tensor
    sin: torch.Tensor
    rows: torch.Tensor


class Rope:
    """The rotations of one model.

    A **regime** is a set of inverse frequencies. Most rope types have one. `longrope` has two, for sequences up to
    and above the original length; `dynamic` has one for each length above `max_position_embeddings`. Cosines are
    tabulated, [regimes · max_length, rotary_dim / 2], except for `dynamic`, whose tables would be as many as its
    lengths: it computes a step's own.
    """

    def __init__(self, source: Any, max_length: int, device: torch.device) -> None:
        self.max_length = max_length
        parameters = rope_parameters(source)
        rope_type = parameters["rope_type"]
        self._first_length = longest_unscaled_sequence(parameters, source.max_position_embeddings) + 1
        above = max_length - self._first_length + 1
        lengths: list[int | None] = [None]
        if rope_type == "longrope" and above > 0:
            lengths.append(self._first_length)
        elif rope_type == "dynamic":
            lengths += range(self._first_length, max_length + 1)
        computed = [inverse_frequencies(source, length) for length in lengths]
        self.attention_factor = computed[0][1]
        inverse = torch.stack([frequencies for frequencies, _ in computed])
        self.regimes = len(lengths)
        self._inverse = inverse.to(device)
        self._tabulated = self.regimes <= 2
        if self._tabulated:
            # On the CPU whatever the device, so that one machine's GPU and CPU rotate alike.
            angles = torch.arange(max_length).float()[None, :, None] * inverse[:, None, :]
            self._cos, self._sin = self._waves(angles.flatten(0, 1))
            self._cos, self._sin = self._cos.to(device), self._sin.to(device)

    @property
    def rotary_dim(self) -> int:
        """Elements of each head that are rotated."""
        return 2 * int(self._inverse.shape[1])

    @property
    def depends_on_length(self) -> bool:
        """Whether a sequence's length changes its rotations."""
        return self.regimes > 1

    def regime(self, length: int) -> int:
        """Which set of inverse frequencies a sequence of this length uses: 0 up to `regimes` - 1."""
        return min(max(length - self._first_length + 1, 0), self.regimes - 1)

    def rows(self, positions: torch.Tensor, batch: AttentionBatch) -> RopeRows:
        """The rotations of a step's tokens, at positions [T]. Raises ValueError if lengths matter and are not given."""
        if not self.depends_on_length:
            return RopeRows(self._cos, self._sin, positions)
        if batch.rope_lengths is None:
            raise ValueError("this model's rope depends on a sequence's length: the batch has to say rope_lengths")
        tokens = torch.arange(positions.shape[0], device=positions.device)
        sequence = torch.searchsorted(batch.query_starts[1:], tokens, right=True).clamp_(max=len(batch.lengths) - 1)
        lengths = batch.rope_lengths.to(torch.int64)
        regime = (lengths - (self._first_length - 1)).clamp(0, self.regimes - 1)[sequence]
        if self._tabulated:
            return RopeRows(self._cos, self._sin, positions + regime * self.max_length)
        cos, sin = self._waves(positions.float()[:, None] * self._inverse[regime])
        return RopeRows(cos, sin, tokens)

    def _waves(self, angles: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return angles.cos() * self.attention_factor, angles.sin() * self.attention_factor
