"""From hidden states to the next token of each row that samples: the same on every device."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from executor.engine.model_inputs import Put, SlotState
from executor.engine.step import Step
from executor.models.model import PagedModel
from kernels.sampling import sample
from kernels.sampling.ranking import rank


@dataclass(frozen=True, slots=True)
class Choosing:
    """How R rows choose, on the model's device. ``R`` is also the length of every parameter."""

    tokens: torch.Tensor
    """The last token of each row, among all of the step ``[R or more]``: what is more only fills up the product."""
    slots: torch.Tensor
    """Slot of each row ``[R]``."""
    parameters: tuple[torch.Tensor, ...]
    """Temperature, top-k, top-p, min-p, seeds and positions ``[R]``, as ``kernels.sampling.sample`` takes them."""
    masks: tuple[torch.Tensor, torch.Tensor] | None
    """Places within R, and ids that may not be chosen there."""
    ranked: torch.Tensor | None = None
    """Places within R whose likeliest tokens are asked for."""
    ranking: int = 0
    """How many of each."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a step comes to: tensors on the model's device, each of which is brought to the host."""

    ids: torch.Tensor
    """The ids sampled ``[R]``; -1 where the logits held no number."""
    ranked_ids: torch.Tensor | None = None
    """The likeliest tokens of the rows that asked for them, in order, ``[ranked, ranking]``."""
    ranked_logprobs: torch.Tensor | None = None
    """Natural logarithms of their probabilities, parallel to those."""

    def each(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "Chosen":
        """The same, with each tensor moved elsewhere."""
        return Chosen(**{name: move(tensor) for name, tensor in self._tensors().items()})

    def results(self) -> dict[str, Any]:
        """What ``Done`` says of it, by name: arrays of their own. Only on the host."""
        return {name: tensor.numpy().copy() for name, tensor in self._tensors().items()}

    def _tensors(self) -> dict[str, torch.Tensor]:
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


def choosing_of(step: Step, put: Put, least_rows: int = 0) -> Choosing | None:
    """Bring a step's sampling to the device; None if no row samples. The head's product has ``least_rows`` rows at least."""
    sampling = step.sampling
    rows = len(sampling.rows)
    if not rows:
        return None
    tokens = np.zeros(max(rows, least_rows), dtype=np.int64)
    tokens[:rows] = np.cumsum(step.counts)[sampling.rows] - 1
    parameters = (
        sampling.temperature,
        sampling.top_k,
        sampling.top_p,
        sampling.min_p,
        sampling.seeds,
        sampling.positions,
    )
    masked = len(sampling.masked_ids)
    return Choosing(
        tokens=put(tokens),
        slots=put(step.slots[sampling.rows]),
        parameters=tuple(put(values) for values in parameters),
        masks=(put(sampling.masked_rows), put(sampling.masked_ids)) if masked else None,
        ranked=put(sampling.ranked) if len(sampling.ranked) else None,
        ranking=sampling.ranking,
    )


def choose(model: PagedModel, hidden: torch.Tensor, choosing: Choosing, state: SlotState, vocabulary: int) -> Chosen:
    """Choose a token for each row, and keep it for the step behind.

    Args:
        model: whose head makes logits.
        hidden: hidden states of the step's tokens ``[T, hidden_size]``, or more.
        choosing: how.
        state: where the ids are kept.
        vocabulary: ids from here on are never chosen.
    """
    logits = model.logits(hidden[choosing.tokens])[: len(choosing.slots)]
    ranked: tuple[torch.Tensor, ...] = ()
    if choosing.ranked is not None:
        ranked = rank(logits[choosing.ranked], choosing.ranking, vocabulary=vocabulary)
    if choosing.masks is not None:
        # Not a plain number, which would be brought to a GPU by a copy that is waited for.
        logits.index_put_(choosing.masks, logits.new_full((), float("-inf")))
    ids = sample(logits, *choosing.parameters, vocabulary=vocabulary)
    # A row without a number has no next token: whatever is fed for it meanwhile comes to nothing, but must be an id.
    state.last_ids[choosing.slots] = ids.clamp(min=0)
    return Chosen(ids, *ranked)
