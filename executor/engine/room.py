"""How much room there is for more, by the manager's last word, and what comes first of all that lacks it."""

from collections.abc import Iterable

from blockmgr.core.messages import Want
from blockmgr.core.states import Residency
from executor.engine.request import Limits, Request
from executor.engine.sequence import Sequence


def wanted_blocks(tokens: int, limit: int, limits: Limits) -> int:
    """Blocks that a sequence of so many tokens needs to get on for a while: for its tokens, and for a block's worth more.

    ``limit``: positions that it ever feeds.
    """
    return limits.blocks_for(min(tokens + limits.tokens_per_block, limit))


def blocks_of(request: Request, limits: Limits) -> int:
    """Blocks that a request needs to be let in."""
    return wanted_blocks(len(request.prompt), request.longest - 1, limits)


def blocks_back(sequence: Sequence, limits: Limits) -> int:
    """Blocks that a sequence needs to come back."""
    return wanted_blocks(len(sequence.tokens), sequence.limit, limits)


def missing_blocks(sequences: Iterable[Sequence], limits: Limits) -> int:
    """Blocks that sequences which are here, or about to be, still lack to get on for a while."""
    missing = 0
    for one in sequences:
        here = not one.parked or one.residency == Residency.RETURNING
        if here and one.ending is None:
            missing += max(blocks_back(one, limits) - len(one.table), 0)
    return missing


def want_of(request: Request, blocks: int, running: bool = False) -> Want:
    """That a request waits for so many blocks, as other engines are told of it."""
    return Want(request.uuid, request.kept.priority, request.kept.arrived, blocks, running)
