"""A minimal generation loop over a pool of its own: the answers that everything cleverer has to agree with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from executor.models.batch import Chunk, step_input
from executor.models.model import PagedModel
from kernels.sampling import sample

NULL_BLOCK = 0


@dataclass(frozen=True)
class Sampling:
    """How one sequence's tokens are chosen. Temperature 0 takes the likeliest; 0, 1.0 and 0.0 turn the rest off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


@dataclass
class PagedSequence:
    """A sequence's tokens whose keys and values are in the pool, and the blocks that hold them."""

    ids: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    rope_length: int = 0


class SequenceRunner:
    """Runs sequences through a model, over blocks handed out one after the other and never taken back.

    `block_order` are the block ids to hand out, by default 1 and up; block 0 is the null block. The pool belongs to
    the runner and goes with it.
    """

    def __init__(
        self, model: PagedModel, num_blocks: int, tokens_per_block: int = 16, block_order: Iterable[int] | None = None
    ) -> None:
        self.model = model
        self.tokens_per_block = tokens_per_block
        shape = model.cache_shape.pool(num_blocks, tokens_per_block)
        self.pool = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self._free = iter(range(NULL_BLOCK + 1, num_blocks) if block_order is None else block_order)

    def step(self, work: Sequence[tuple[PagedSequence, Sequence[int]]]) -> list[torch.Tensor]:
        """Compute the next tokens of several sequences in one step.

        Args:
            work: sequences, each with the ids that come next in it (at least one).

        Returns:
            For each, the logits [vocab_size] after the last of its new tokens.
        """
        hidden = self.hidden(work)
        return list(self.model.logits(torch.stack([rows[-1] for rows in hidden])))

    def all_logits(self, work: Sequence[tuple[PagedSequence, Sequence[int]]]) -> list[torch.Tensor]:
        """As `step`, but the logits [tokens, vocab_size] after each of the new tokens."""
        return [self.model.logits(rows) for rows in self.hidden(work)]

    def hidden(self, work: Sequence[tuple[PagedSequence, Sequence[int]]]) -> list[torch.Tensor]:
        """As `step`, but the hidden states [tokens, hidden_size] of the new tokens."""
        chunks = [self._chunk(sequence, ids) for sequence, ids in work]
        given = step_input(chunks, self.tokens_per_block, self.model.device)
        hidden = self.model.forward(given.ids, given.positions, given.batch, self.pool)
        return list(hidden.split([len(ids) for _, ids in work]))

    def _chunk(self, sequence: PagedSequence, ids: Sequence[int]) -> Chunk:
        start = len(sequence.ids)
        sequence.ids += ids
        while len(sequence.blocks) * self.tokens_per_block < len(sequence.ids):
            sequence.blocks.append(next(self._free))
        return Chunk(ids, start, sequence.blocks, sequence.rope_length)


def generate(
    model: PagedModel,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    *,
    sampling: Sequence[Sampling] | None = None,
    stop_ids: frozenset[int] = frozenset(),
    chunk_tokens: int = 512,
    tokens_per_block: int = 16,
) -> list[list[int]]:
    """The continuations of some prompts, decoded side by side.

    Each ends after `max_tokens` tokens or with an id of `stop_ids`, which is part of it. Prompts are computed one by
    one, in chunks of `chunk_tokens`. A sequence's rope length is that of its prompt and `max_tokens`.
    """
    lengths = [len(prompt) + max_tokens for prompt in prompts]
    num_blocks = 1 + sum(-(-length // tokens_per_block) for length in lengths)
    runner = SequenceRunner(model, num_blocks, tokens_per_block)
    sequences = [PagedSequence(rope_length=length) for length in lengths]
    ways = sampling or [Sampling()] * len(prompts)
    outputs: list[list[int]] = [[] for _ in prompts]
    latest = {
        row: _prefill(runner, sequence, prompt, chunk_tokens)
        for row, (sequence, prompt) in enumerate(zip(sequences, prompts, strict=True))
    }
    running = list(range(len(prompts)))
    while running:
        logits = torch.stack([latest[row] for row in running])
        positions = [lengths[row] - max_tokens + len(outputs[row]) for row in running]
        ids = choose(logits, [ways[row] for row in running], positions)
        for row, token in zip(running, ids, strict=True):
            outputs[row].append(token)
        running = [row for row in running if len(outputs[row]) < max_tokens and outputs[row][-1] not in stop_ids]
        if running:
            computed = runner.step([(sequences[row], outputs[row][-1:]) for row in running])
            latest = dict(zip(running, computed, strict=True))
    return outputs


def choose(logits: torch.Tensor, ways: Sequence[Sampling], positions: Sequence[int]) -> list[int]:
    """Sample one id a row of logits [S, vocab_size]; `positions` are those the ids will have in their sequences."""
    device = logits.device

    def column(values: list[float], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    ids = sample(
        logits,
        column([way.temperature for way in ways], torch.float32),
        column([way.top_k for way in ways], torch.int32),
        column([way.top_p for way in ways], torch.float32),
        column([way.min_p for way in ways], torch.float32),
        column([way.seed for way in ways], torch.int64),
        column(list(positions), torch.int64),
    )
    return [int(token) for token in ids]


def _prefill(runner: SequenceRunner, sequence: PagedSequence, prompt: Sequence[int], chunk_tokens: int) -> torch.Tensor:
    """Compute a prompt in chunks; the logits [vocab_size] after its last token."""
    for start in range(0, len(prompt), chunk_tokens):
        logits = runner.step([(sequence, prompt[start : start + chunk_tokens])])[0]
    return logits
