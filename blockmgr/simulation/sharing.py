"""What samples and beams of one prompt save by sharing blocks, played through the allocator's forks and reorders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from blockmgr.simulation.beams import BeamScores, Divergence
from blockmgr.simulation.driver import Driver, Move
from blockmgr.simulation.workload import ALPACA, SHAREGPT, LengthMix, Request

WIDTHS = (2, 4, 6)
TOKENS_PER_BLOCK = 16

PAPER_PERCENT = {
    ("sampling", "Alpaca"): (6.1, 9.8),
    ("sampling", "ShareGPT"): (16.2, 30.5),
    ("beam", "Alpaca"): (37.6, 55.2),
    ("beam", "ShareGPT"): (44.3, 66.3),
}
"""Savings that the PagedAttention paper reports (section 6.3), from the narrowest width to the widest."""


@dataclass(frozen=True, slots=True)
class SharingRow:
    """One way of decoding on one mix of lengths. Block counts are summed over all steps of the run."""

    method: str
    """``sampling`` or ``beam``."""
    mix: str
    width: int
    saved_percent: float
    """Blocks saved by sharing, of the blocks that would be in use without it; both averaged over the run."""
    blocks: int
    blocks_unshared: int
    blocks_copied: int
    """Copies on write that were performed."""
    steps: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """All rows, and what they rest on."""

    seed: int
    requests: int
    tokens_per_block: int
    length_distribution: str
    entropy_nats: float
    noise: float
    mixes: list[LengthMix]
    paper_percent: dict[str, tuple[float, float]]
    rows: list[SharingRow]


def measure_sharing(
    requests: int = 32,
    seed: int = 0,
    divergence: Divergence = Divergence(),  # noqa: B008 - frozen
    on_row: Callable[[SharingRow], None] = lambda row: None,
) -> Sharing:
    """Run every method, mix and width. The same seed gives the same requests to all widths, and the same figures again.

    ``on_row`` hears of each row as soon as it is there.
    """
    rows = []
    for method in ("sampling", "beam"):
        for mix in (ALPACA, SHAREGPT):
            drawn = mix.draw(requests, np.random.default_rng(seed))
            for width in WIDTHS:
                rows.append(_run(method, mix.name, drawn, width, divergence, np.random.default_rng([seed, width])))
                on_row(rows[-1])
    return Sharing(
        seed,
        requests,
        TOKENS_PER_BLOCK,
        "geometric, independent for prompt and output",
        divergence.entropy,
        divergence.noise,
        [ALPACA, SHAREGPT],
        {f"{method} {mix}": figures for (method, mix), figures in PAPER_PERCENT.items()},
        rows,
    )


@dataclass(slots=True)
class _Group:
    """The samples or beams of one request."""

    handles: list[int]
    request: Request
    scores: BeamScores | None


class _Tally:
    """Sums over the steps of a run."""

    def __init__(self) -> None:
        self.blocks = self.unshared = self.steps = 0

    def count(self, driver: Driver) -> None:
        self.blocks += driver.blocks_in_use
        self.unshared += driver.table_entries
        self.steps += 1


def _run(
    method: str,
    mix: str,
    requests: Sequence[Request],
    width: int,
    divergence: Divergence,
    numbers: np.random.Generator,
) -> SharingRow:
    """All requests start together; each goes on until its output is complete. The pool has room for all, unshared."""
    room = sum(width * (request.final // TOKENS_PER_BLOCK + 2) for request in requests)
    driver = Driver(room, TOKENS_PER_BLOCK, max_sequences=len(requests) * width)
    parents = [answer.handle for answer in driver.admit([request.prompt for request in requests])]
    families = driver.fork(parents, width - 1)
    running = [
        _Group(family, request, BeamScores(width, request.output, divergence, numbers) if method == "beam" else None)
        for family, request in zip(families, requests, strict=True)
    ]
    tally, step = _Tally(), 0
    while running:
        _advance(driver, running)
        tally.count(driver)
        step += 1
        done = [group for group in running if group.request.output == step]
        if done:
            driver.finish([handle for group in done for handle in group.handles])
            running = [group for group in running if group.request.output > step]
    saved = round(100 * (1 - tally.blocks / tally.unshared), 1)
    return SharingRow(method, mix, width, saved, tally.blocks, tally.unshared, driver.copies, tally.steps)


def _advance(driver: Driver, groups: Sequence[_Group]) -> None:
    """One step of every group, in one message."""
    moves = []
    for group in groups:
        if group.scores is not None:
            parents = group.scores.step()
            moves.append(Move(np.array(group.handles, dtype=np.int64), parents, group.scores.scores))
    if moves:
        driver.reorder(moves)
    else:
        driver.decode([handle for group in groups for handle in group.handles])
