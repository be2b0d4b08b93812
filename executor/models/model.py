"""What an engine needs from a model, whichever code computes it."""

from typing import Protocol

import torch

from executor.models.batch import AttentionBatch
from executor.models.config import CacheShape


class PagedModel(Protocol):
    """A causal language model whose keys and values live in a pool of blocks that somebody else owns.

    A token's hidden state, and so its logits, depend on nothing but its own sequence: not on who shares the step, on
    how a prompt is cut into chunks, or on which blocks hold it. On a CPU this holds to the bit.
    """

    cache_shape: CacheShape
    """What the model keeps for each token."""
    vocab_size: int
    """Columns of the logits. A tokenizer may know fewer ids."""
    max_length: int
    """Tokens that a sequence may have. Positions at or above it are the caller's error and are not checked."""
    device: torch.device
    dtype: torch.dtype
    """Of weights, hidden states and the pool."""
    rope_depends_on_length: bool
    """Whether a batch has to say `rope_lengths`."""

    recordable: bool
    """Whether a step's work depends on the shapes of its tensors alone, so that a GPU may record and replay it."""

    def rope_regime(self, length: int) -> int:
        """A number that two lengths share if sequences of these rope lengths rotate their keys alike, and so may
        share blocks. Always 0 unless `rope_depends_on_length`.
        """

    def brief(self) -> "PagedModel":
        """A model that does what this one does, over fewer layers of the same weights: whatever a step of this one compiles
        or loads, a step of that one does, too. It works in the same pools.
        """

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, batch: AttentionBatch, pool: torch.Tensor
    ) -> torch.Tensor:
        """Compute one step.

        Args:
            ids: token ids [T], int64.
            positions: their positions in their sequences [T], int64.
            batch: which sequences they belong to, and their blocks.
            pool: [num_blocks, num_layers, 2, key_value_heads, tokens_per_block, head_dim]; the tokens' keys and
                values are written into it at `batch.slots`, and nothing else is. It stays the caller's.

        Returns:
            Hidden states [T, hidden_size], to be handed to `logits`, in whole or in part.
        """

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [n, vocab_size], float32, of rows of hidden states [n, hidden_size]."""
