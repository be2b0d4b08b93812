"""Drawing the next token of each row: a function of the row's logits, parameters, seed and position, of nothing else.

A token is drawn by an exponential race, which is the Gumbel-max trick without its outer logarithm: every token draws an
exponential waiting time, divided by its weight, and the shortest wins. The times come from a hash of (seed, position,
token id), the same integers on a CPU and a GPU, so that a draw can be repeated anywhere without any state.
"""

from __future__ import annotations

import torch

from kernels.dispatch import runs_triton

__all__ = ["FLAT_FROM", "GREEDY_BELOW", "sample"]

# Temperatures under this are greedy: the weights of all but equal logits would be nil in float32.
GREEDY_BELOW = 1e-5
# Greater temperatures count as this one: all weights are equal then.
FLAT_FROM = 1e30


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    *,
    vocabulary: int | None = None,
) -> torch.Tensor:
    """Draw one token id for each row.

    Tokens rank by logit, the lower id first among equal logits. What survives the filters is a head of that ranking, and
    never empty. They apply in transformers' order:

    1. `temperature` divides the logits.
    2. `top_k` keeps exactly the k first tokens.
    3. `top_p` keeps a token if those before it hold less than `top_p` of the probability that top_k left.
    4. `min_p` keeps the tokens of at least `min_p` times the greatest probability.

    Args:
        logits: [rows, width] float32, bfloat16 or float16; the last stride is 1. -inf excludes a token.
        temperature: [rows] float32; below 1e-5, or NaN, the first token of the ranking is taken.
        top_k: [rows] int32 or int64; 1 is greedy; 0 or less, or the vocabulary or more, is off.
        top_p: [rows] float32; 0 or less is greedy; 1 or more, or NaN, is off.
        min_p: [rows] float32; 0 or less, or NaN, is off; 1 or more keeps what equals the greatest logit.
        seeds: [rows] int64, any value.
        positions: [rows] int64, the position the new token will take in its sequence.
        vocabulary: ids from here on are never drawn, because a head may be padded; `width` by default.

    Returns:
        [rows] int64; -1 for a row that holds a NaN, or whose greatest logit is infinite.

    Raises:
        ValueError: shapes do not fit each other, or `vocabulary` is outside 1 to `width`.
    """
    rows, width = logits.shape
    limit = width if vocabulary is None else vocabulary
    if not 1 <= limit <= width:
        raise ValueError(f"vocabulary is {limit}; the logits have {width} columns, and it must be 1 to that")
    if logits.stride(1) != 1:
        raise ValueError(f"logits have stride {logits.stride(1)} in their last dimension, not 1")
    for name, values in zip(
        ("temperature", "top_k", "top_p", "min_p", "seeds", "positions"),
        (temperature, top_k, top_p, min_p, seeds, positions),
        strict=True,
    ):
        if values.shape != (rows,):
            raise ValueError(f"{name} has shape {tuple(values.shape)}, not [{rows}]")
    parameters = (temperature, top_k, top_p, min_p, seeds, positions)
    if runs_triton(logits):
        from kernels.sampling.kernel import launch_sample

        return launch_sample(logits, *parameters, limit)
    from kernels.sampling.rows import sample_row

    listed = zip(*(values.tolist() for values in parameters), strict=True)
    drawn = [sample_row(row, *values) for row, values in zip(logits[:, :limit], listed, strict=True)]
    return torch.tensor(drawn, dtype=torch.int64, device=logits.device)
