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
from executor.models.config import CacheShape, check_heads
from executor.models.errors import MissingTensor, UnsupportedModel, UnusedTensor
from executor.models.layer_cache import LayerCache
from executor.models.linear import linear
from executor.models.rope import longest_sequence, rope_parameters

ATTENTION_NAME = "pagehold"

UNSUPPORTED_ARGUMENTS = ("s_aux", "position_bias", "head_mask", "cu_seq_lens_q")
"""Arguments of an attention function that change its result and that the paged kernels do not know."""


@dataclass
class PagedStep:
    """One step, as the attention function needs it. `layers` collects the layers that called it."""

    batch: AttentionBatch
    pool: torch.Tensor
    layers: list[int] = field(default_factory=list)


def paged_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    *,
    paged_step: PagedStep | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Transformers' attention function: query, key and value are [1, heads, T, head_dim]; returns [1, T, heads, head_dim].

    Raises UnsupportedModel for what would be computed wrongly.
    """
    if paged_step is None:
        raise UnsupportedModel(f"{type(module).__name__} does not hand its arguments on to its attention function")
    unknown = [name for name in UNSUPPORTED_ARGUMENTS if others.get(name) is not None]
    if unknown or attention_mask is not None or not getattr(module, "is_causal", True):
        what = unknown[0] if unknown else "a mask of its own"
        raise UnsupportedModel(f"{type(module).__name__} wants attention with {what}, which the paged kernels have not")
    layer = int(module.layer_idx)  # type: ignore[arg-type] # nn.Module declares attributes as tensors
    paged_step.layers.append(layer)
    cache = LayerCache(paged_step.pool, layer, paged_step.batch)
    rows = [states[0].transpose(0, 1) for states in (query, key, value)]
    expected = (paged_step.pool.shape[3], paged_step.pool.shape[5])
    if any(states.shape[1:] != expected for states in rows[1:]) or rows[0].shape[2] != expected[1]:
        raise UnsupportedModel(
            f"{type(module).__name__} of layer {layer} has keys {list(rows[1].shape[1:])} and values "
            f"{list(rows[2].shape[1:])}; the pool holds {list(expected)} (heads, head size) for every layer"
        )
    query = cache.write(*(states.contiguous() for states in rows), rope=None)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return cache.attend(query, scale, sliding_window or 0, softcap or 0.0)[None], None


class RowLinear(nn.Linear):
    """`nn.Linear` whose rows do not depend on each other; takes the place of a model's own."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Linear's name
        """Input [..., in_features] → [..., out_features]."""
        return linear(input.flatten(0, -2), self.weight, self.bias).unflatten(0, input.shape[:-1])


class _GivenHidden(nn.Module):
    """Stands in for a model's body where only its head is wanted."""

    def forward(self, inputs_embeds: torch.Tensor, **_: Any) -> BaseModelOutputWithPast:
        return BaseModelOutputWithPast(last_hidden_state=inputs_embeds)


class TransformersModel:
    """A `PagedModel` around one of transformers' causal language models."""

    rope_depends_on_length = False

    def __init__(self, model: Any, max_length: int) -> None:
        config = model.config.get_text_config()
        self.cache_shape = cache_shape(config)
        self.vocab_size = int(config.vocab_size)
        self.max_length = max_length
        self.device = model.device
        self.dtype = model.dtype
        self._body = model.base_model
        # transformers' head is more than a matrix (caps, scales): the model itself, with its body taken out.
        self._head = copy.copy(model)
        self._head._modules = {**model._modules, model.base_model_prefix: _GivenHidden()}
        self._check(model)

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
        cache_shape(config)
        max_length = limit(_longest(config))
        try:
            model = _with_weights(folder, source, device, dtype, random_seed)
        except (ValueError, OSError, ImportError) as error:
            raise UnsupportedModel(f"{folder}: transformers cannot load it: {error}") from error
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = RowLinear
        return cls(model.requires_grad_(False).eval(), max_length)

    def rope_regime(self, length: int) -> int:
        """See `PagedModel`. Always 0: longer sequences than the first regime's are refused."""
        return 0

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, batch: AttentionBatch, pool: torch.Tensor
    ) -> torch.Tensor:
        """See `PagedModel`."""
        return self._run(ids, positions, PagedStep(batch, pool))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See `PagedModel`."""
        output = self._head(inputs_embeds=hidden[None], use_cache=False)
        return output.logits[0].float()

    def _run(self, ids: torch.Tensor, positions: torch.Tensor, step: PagedStep) -> torch.Tensor:
        output = self._body(input_ids=ids[None], position_ids=positions[None], use_cache=False, paged_step=step)
        return output.last_hidden_state[0]

    def _check(self, model: Any) -> None:
        """Run two tokens: every layer has to attend exactly once, and the head has to be what was taken apart."""
        pool = torch.zeros(self.cache_shape.pool(2, 16), dtype=self.dtype, device=self.device)
        given = step_input([Chunk([0, 1], 0, [1])], 16, self.device)
        step = PagedStep(given.batch, pool)
        hidden = self._run(given.ids, given.positions, step)
        name = type(model).__name__
        if step.layers != list(range(self.cache_shape.num_layers)):
            raise UnsupportedModel(
                f"{name} attends in layers {step.layers}; every one of {self.cache_shape.num_layers} layers has to, once"
            )
        whole = model(
            input_ids=given.ids[None],
            position_ids=given.positions[None],
            use_cache=False,
            paged_step=PagedStep(given.batch, pool),
        )
        if not torch.equal(whole.logits[0].float(), self.logits(hidden)):
            raise UnsupportedModel(f"{name} computes its logits from more than its last hidden states")


def cache_shape(config: Any) -> CacheShape:
    """What a transformers configuration keeps for each token. Raises UnsupportedModel for impossible head counts."""
    heads = config.num_attention_heads
    key_value_heads = getattr(config, "num_key_value_heads", None) or heads
    check_heads(heads, key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return CacheShape(config.num_hidden_layers, key_value_heads, head_dim)


def _longest(config: Any) -> int:
    """Tokens that a sequence may have here: transformers rotates a whole batch by its longest sequence where rope
    depends on the length, so such models stay within the lengths that rotate alike.
    """
    if not getattr(config, "rope_parameters", None):
        return int(config.max_position_embeddings)
    parameters = rope_parameters(config)
    if parameters["rope_type"] == "longrope":
        return int(parameters["original_max_position_embeddings"])
    if parameters["rope_type"] == "dynamic":
        return int(config.max_position_embeddings)
    return longest_sequence(config)


def _with_weights(folder: Path, source: Any, device: torch.device, dtype: torch.dtype, seed: int | None) -> Any:
    if seed is not None:
        with torch.random.fork_rng(), device:
            torch.manual_seed(seed)
            return AutoModelForCausalLM.from_config(source, dtype=dtype, attn_implementation=ATTENTION_NAME)
    model, info = AutoModelForCausalLM.from_pretrained(
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
