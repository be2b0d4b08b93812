"""Models that run through transformers' own modelling code, with attention over the paged cache.

transformers calls an attention function by name; the one registered here writes the keys and values it is given into
the pool, and attends through the block tables.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from executor.models.batch import AttentionBatch, Chunk, step_input
from executor.models.config import CacheShape, check_attention
from executor.models.errors import MissingTensor, UnsupportedModel, UnusedTensor
from executor.models.layer_cache import LayerCache
from executor.models.rope import longest_sequence, longest_unscaled_sequence, rope_parameters_by_layer
from executor.models.row_modules import make_rows_independent

ATTENTION_NAME = "pagehold"

UNSUPPORTED_ARGUMENTS = ("s_aux", "position_bias", "head_mask", "cu_seq_lens_q")
"""Arguments of an attention function that change its result and that the paged kernels do not know."""


@dataclass
class PagedStep:
    """One step, as the attention function needs it. `calls` collects the layers that called it, with their windows."""

    batch: AttentionBatch
    pool: torch.Tensor
    calls: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class CurrentStep:
    """The step that a model is computing. Each of its modules holds this as `paged`: not every family hands what its
    `forward` is given on to its attention function.
    """

    step: PagedStep | None = None


def paged_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Transformers' attention function: query, key and value are [1, heads, T, head_dim]; returns [1, T, heads, head_dim].

    Raises UnsupportedModel for what would be computed wrongly.
    """
    current: CurrentStep = module.paged  # type: ignore[assignment] # nn.Module declares attributes as tensors
    assert current.step is not None
    step = current.step
    unknown = [name for name in UNSUPPORTED_ARGUMENTS if others.get(name) is not None]
    if unknown or attention_mask is not None or not getattr(module, "is_causal", True):
        what = unknown[0] if unknown else "a mask of its own"
        raise UnsupportedModel(f"{type(module).__name__} wants attention with {what}, which the paged kernels have not")
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    window = sliding_window or 0
    step.calls.append((layer, window))
    cache = LayerCache(step.pool, layer, step.batch)
    rows = [states[0].transpose(0, 1) for states in (query, key, value)]
    expected = (step.pool.shape[3], step.pool.shape[5])
    if any(states.shape[1:] != expected for states in rows[1:]) or rows[0].shape[2] != expected[1]:
        raise UnsupportedModel(
            f"{type(module).__name__} of layer {layer} has keys {list(rows[1].shape[1:])} and values "
            f"{list(rows[2].shape[1:])}; the pool holds {list(expected)} (heads, head size) for every layer"
        )
    query = cache.write(rows[0].contiguous(), rows[1], rows[2], rope=None)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return cache.attend(query, scale, window, softcap or 0.0)[None], None


class _GivenHidden(nn.Module):
    """Stands in for a model's body where only its head is wanted."""

    def forward(self, inputs_embeds: torch.Tensor, **_: Any) -> BaseModelOutputWithPast:
        return BaseModelOutputWithPast(last_hidden_state=inputs_embeds)


class TransformersModel:
    """A `PagedModel` around one of transformers' causal language models."""

    rope_depends_on_length = False
    recordable = False
    """Nobody knows what else modelling code does, and whether it does the same again."""

    def __init__(self, model: Any, max_length: int) -> None:
        config = model.config.get_text_config()
        self.cache_shape = cache_shape(config)
        self.vocab_size = int(config.vocab_size)
        self.max_length = max_length
        self.device = model.device
        self.dtype = model.dtype
        self._body = model.base_model
        self._current = CurrentStep()
        for module in model.modules():
            module.paged = self._current
        # transformers' head is more than a matrix (caps, scales): the model itself, with its body taken out.
        self._head = copy.copy(model)
        self._head._modules = {**model._modules, model.base_model_prefix: _GivenHidden()}
        try:
            self._check(model)
        except (AttributeError, TypeError, ValueError) as error:
            raise UnsupportedModel(f"{type(model).__name__} cannot be run in parts: {error}") from error

    @classmethod
    def load(
        cls,
        folder: Path,
        source: Any,
        *,
        device: torch.device,
        dtype: torch.dtype,
        random_seed: int | None,
        limit: Callable[[int], int],
    ) -> Self:
        """Load from a folder, or make random weights with a seed. `limit` bounds the model's own longest sequence.

        Raises UnsupportedModel if the paged kernels cannot serve it, MissingTensor and UnusedTensor as for a decoder.
        """
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, paged_attention)
        config = source.get_text_config()
        try:
            cache_shape(config)
            max_length = limit(_longest(config))
        except AttributeError as error:
            raise UnsupportedModel(
                f"{source.model_type}: not a decoder with attention in each layer: {error}"
            ) from error
        try:
            model = _with_weights(folder, source, device, dtype, random_seed)
        except (ValueError, OSError, ImportError) as error:
            raise UnsupportedModel(f"{folder}: transformers cannot load it: {error}") from error
        make_rows_independent(model)
        return cls(model.requires_grad_(False).eval(), max_length)

    def rope_regime(self, length: int) -> int:
        """See `PagedModel`. Always 0: longer sequences than the first regime's are refused."""
        return 0

    def brief(self) -> "TransformersModel":
        """See `PagedModel`. Nothing is known of its layers: it is this model itself."""
        return self

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, batch: AttentionBatch, pool: torch.Tensor
    ) -> torch.Tensor:
        """See `PagedModel`."""
        output = self._run(ids, positions, PagedStep(batch, pool), self._body)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See `PagedModel`."""
        output = self._head(inputs_embeds=hidden[None], use_cache=False)
        return output.logits[0].float()

    def _run(self, ids: torch.Tensor, positions: torch.Tensor, step: PagedStep, model: Any) -> Any:
        self._current.step = step
        try:
            return model(input_ids=ids[None], position_ids=positions[None], use_cache=False)
        finally:
            self._current.step = None

    def _check(self, model: Any) -> None:
        """Run two tokens: every layer has to attend exactly once, and the head has to be what was taken apart."""
        pool = torch.zeros(self.cache_shape.pool(2, 16), dtype=self.dtype, device=self.device)
        given = step_input([Chunk([0, 1], 0, [1])], 16, self.device)
        step = PagedStep(given.batch, pool)
        hidden = self._run(given.ids, given.positions, step, self._body).last_hidden_state[0]
        name = type(model).__name__
        layers = [layer for layer, _ in step.calls]
        if layers != list(range(self.cache_shape.num_layers)):
            raise UnsupportedModel(
                f"{name} attends in layers {layers}; every one of {self.cache_shape.num_layers} layers has to, once"
            )
        _check_masks(name, model.config.get_text_config(), [window for _, window in step.calls])
        whole = self._run(given.ids, given.positions, PagedStep(given.batch, pool), model)
        if not torch.equal(whole.logits[0].float(), self.logits(hidden)):
            raise UnsupportedModel(f"{name} computes its logits from more than its last hidden states")


def cache_shape(config: Any) -> CacheShape:
    """What a transformers configuration keeps for each token. Raises UnsupportedModel for impossible head counts."""
    heads = config.num_attention_heads
    key_value_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    check_attention(heads, key_value_heads, head_dim)
    return CacheShape(config.num_hidden_layers, key_value_heads, head_dim)


def _check_masks(name: str, config: Any, windows: list[int]) -> None:
    """Raise UnsupportedModel where a layer would be masked by what it does not tell its attention function."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * len(windows)
    for layer, (kind, said) in enumerate(zip(kinds, windows, strict=True)):
        if kind not in ("full_attention", "sliding_attention"):
            raise UnsupportedModel(f"{name} has {kind!r} in layer {layer}, which the paged kernels have not")
        if kind == "sliding_attention" and not said:
            raise UnsupportedModel(f"{name} does not tell its attention function the window of layer {layer}")


def _longest(config: Any) -> int:
    """Tokens that a sequence may have here: transformers rotates a whole batch by its longest sequence where rope
    depends on the length, so such models stay within the lengths that rotate alike.
    """
    limit = int(config.max_position_embeddings)
    return min((_longest_rotated(kind, limit) for kind in rope_parameters_by_layer(config)), default=limit)


def _longest_rotated(parameters: dict[str, Any], limit: int) -> int:
    if parameters["rope_type"] in ("dynamic", "longrope"):
        return min(limit, longest_unscaled_sequence(parameters, limit))
    return longest_sequence(parameters, limit)


def _with_weights(folder: Path, source: Any, device: torch.device, dtype: torch.dtype, seed: int | None) -> Any:
    if seed is not None:
        with torch.random.fork_rng(), device:
            torch.manual_seed(seed)
            return AutoModelForCausalLM.from_config(source, dtype=dtype, attn_implementation=ATTENTION_NAME)
    auto: Any = AutoModelForCausalLM  # its annotations leave out the pair that output_loading_info returns
    model, info = auto.from_pretrained(
        folder,
        config=source,
        dtype=dtype,
        attn_implementation=ATTENTION_NAME,
        use_safetensors=True,
        local_files_only=True,
        output_loading_info=True,
    )
    if info["missing_keys"] or info["mismatched_keys"]:
        names = [*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])]
        raise MissingTensor(f"{folder}: tensor {', '.join(sorted(names)[:3])} is missing or has another shape")
    if info["unexpected_keys"]:
        names = sorted(info["unexpected_keys"])
        raise UnusedTensor(f"{folder}: {source.model_type} has no use for tensor {', '.join(names[:3])}")
    return model.to(device)
