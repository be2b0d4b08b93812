"""One step's tokens: which sequences they belong to, where their keys and values go, and what they may see."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class AttentionBatch:
    """T tokens of S sequences, flattened, as the attention kernels and the rope want them. All tensors are on the
    model's device.

    A sequence's tokens of this step are its last ones: token i of sequence s stands at position
    `lengths[s] - n + i`, where n is `query_starts[s + 1] - query_starts[s]`. Chunks of prompts and single tokens may
    be mixed. A row of padding has length 0, no token that counts, and slots below 0.
    """

    tables: torch.Tensor
    """[S, W] int32: block ids of each sequence, padded with the null block, 0."""
    query_starts: torch.Tensor
    """[S + 1] int32: where each sequence's tokens start among the T, and where the last one's end: T, but for tokens of
    padding."""
    lengths: torch.Tensor
    """[S] int32: tokens of each sequence, those of this step included."""
    slots: torch.Tensor
    """[T] int64: where each token's key and value go, block id · tokens_per_block + offset; below 0 nowhere."""
    max_query: int
    """The largest number of tokens that one sequence has in this step."""
    is_decode: bool
    """Every sequence has exactly one token in this step."""
    rope_lengths: torch.Tensor | None = None
    """[S] int32: the length, in tokens, from which each sequence's rope factors are computed; needed where the
    model's `rope_depends_on_length`. Keys are cached rotated: a sequence keeps one value as long as it keeps its KV,
    and shares blocks only with sequences of the same `rope_regime`."""
    singles: "Singles | None" = None
    """The sequences that come first and have one token in this step, where they are to be attended to as in a decode
    step: that is faster, and gives the same bits."""


@dataclass(frozen=True)
class Singles:
    """How a mixed step is cut into its leading single tokens and the chunks behind them. How many there are is known on
    the model's device alone, so that a recorded step holds for any number.
    """

    lengths: torch.Tensor
    """[S] int32: as a batch's, but 0 for all other sequences."""
    chunk_starts: torch.Tensor
    """[S + 1] int32: as a batch's `query_starts`, but none of these sequences has a token."""


@dataclass(frozen=True)
class Chunk:
    """A run of one sequence's tokens to be computed in a step.

    `ids` are the tokens at positions `start` and on; `blocks` the sequence's block table, long enough to hold them.
    `rope_length` as in `AttentionBatch`; 0 takes the length that the sequence has with this chunk.
    """

    ids: Sequence[int]
    start: int
    blocks: Sequence[int]
    rope_length: int = 0

    @property
    def length(self) -> int:
        """Tokens of the sequence once this chunk is done."""
        return self.start + len(self.ids)


@dataclass(frozen=True)
class StepInput:
    """What a model's `forward` takes, besides the pool: token ids [T] and positions [T] (int64), and the batch."""

    ids: torch.Tensor
    positions: torch.Tensor
    batch: AttentionBatch


def step_input(chunks: Sequence[Chunk], tokens_per_block: int, device: torch.device | str = "cpu") -> StepInput:
    """Flatten chunks into one step. Raises ValueError for an empty chunk or a block table that is too short."""
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    starts = [0]
    width = max((len(chunk.blocks) for chunk in chunks), default=1)
    for chunk in chunks:
        if not chunk.ids or chunk.length > len(chunk.blocks) * tokens_per_block:
            raise ValueError(
                f"a chunk of {len(chunk.ids)} tokens at position {chunk.start} needs at least one token and "
                f"blocks for all of them; it has {len(chunk.blocks)} of {tokens_per_block} tokens"
            )
        ids += chunk.ids
        places = range(chunk.start, chunk.length)
        positions += places
        slots += [chunk.blocks[p // tokens_per_block] * tokens_per_block + p % tokens_per_block for p in places]
        starts.append(len(ids))
    tables = [[*chunk.blocks, *[0] * (width - len(chunk.blocks))] for chunk in chunks]
    counts = [len(chunk.ids) for chunk in chunks]
    batch = AttentionBatch(
        tables=torch.tensor(tables, dtype=torch.int32, device=device),
        query_starts=torch.tensor(starts, dtype=torch.int32, device=device),
        lengths=torch.tensor([chunk.length for chunk in chunks], dtype=torch.int32, device=device),
        slots=torch.tensor(slots, dtype=torch.int64, device=device),
        max_query=max(counts, default=0),
        is_decode=all(count == 1 for count in counts),
        rope_lengths=torch.tensor(
            [chunk.rope_length or chunk.length for chunk in chunks], dtype=torch.int32, device=device
        ),
    )
    return StepInput(
        ids=torch.tensor(ids, dtype=torch.int64, device=device),
        positions=torch.tensor(positions, dtype=torch.int64, device=device),
        batch=batch,
    )
