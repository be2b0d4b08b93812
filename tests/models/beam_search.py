"""Beam search twice: transformers' own, and this project's over a model that is driven without an engine."""

from collections.abc import Sequence
from typing import Any

import torch

from executor.engine.beams import Candidates, Hypothesis, Rules, advance
from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.model import PagedModel
from kernels.sampling.ranking import rank

Found = list[tuple[list[int], float]]
"""Outputs with their scores, the best first."""


def reference_beams(
    model: Any,
    prompt: list[int],
    width: int,
    max_tokens: int,
    *,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    end_ids: Sequence[int] = (),
    min_tokens: int = 0,
    known_ids: int | None = None,
) -> Found:
    """transformers' beam search, all of its beams. ``known_ids``: ids from here on are never chosen."""
    ids = torch.tensor([prompt])
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=width,
        num_return_sequences=width,
        max_new_tokens=max_tokens,
        min_new_tokens=min_tokens or None,
        do_sample=False,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        eos_token_id=list(end_ids) or None,
        pad_token_id=0,
        suppress_tokens=None if known_ids is None else list(range(known_ids, model.config.vocab_size)),
        return_dict_in_generate=True,
        output_scores=True,
    )
    # beam_indices tell how long each is: what stands behind is padding, whatever id that has.
    lengths = (found.beam_indices >= 0).sum(dim=1).tolist()
    outputs = [row[len(prompt) : len(prompt) + n].tolist() for row, n in zip(found.sequences, lengths, strict=True)]
    return list(zip(outputs, found.sequences_scores.tolist(), strict=True))


def searched_beams(model: PagedModel, prompt: list[int], rules: Rules, tokens_per_block: int = 16) -> Found:
    """The search of ``executor.engine.beams``, every step of which computes its beams anew."""
    outputs: list[list[int]] = [[] for _ in range(rules.width)]
    scores = [0.0] * rules.width
    hypotheses: list[Hypothesis] = []
    while True:
        ahead = advance(
            rules, outputs, scores, hypotheses, _candidates(model, prompt, outputs, rules, tokens_per_block)
        )
        hypotheses = ahead.hypotheses
        if ahead.is_done:
            return [(list(one.tokens), one.rank) for one in hypotheses]
        outputs = [[*outputs[beam.parent], beam.token] for beam in ahead.beams]
        scores = [beam.score for beam in ahead.beams]


def _candidates(
    model: PagedModel, prompt: list[int], outputs: list[list[int]], rules: Rules, tokens_per_block: int
) -> list[Candidates]:
    longest = len(prompt) + len(outputs[0])
    runner = SequenceRunner(model, 1 + len(outputs) * -(-longest // tokens_per_block), tokens_per_block)
    logits = torch.stack(runner.step([(PagedSequence(), [*prompt, *output]) for output in outputs]))
    ids, logprobs = rank(logits, rules.candidates)
    return [Candidates(*row) for row in zip(ids.tolist(), logprobs.tolist(), strict=True)]
