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
    """Blocks that a request needs to be let in, with all its outputs."""
    return request.blocks_of_all(wanted_blocks(len(request.prompt), request.longest - 1, limits), limits)


def blocks_back(kin: list[Sequence], limits: Limits) -> int:
    """Blocks that sequences of one request need to come back together: what they share counts once."""
    request = kin[0].request
    each = sum(wanted_blocks(len(one.tokens), one.request.longest - 1, limits) for one in kin)
    return each - (len(kin) - 1) * request.shared_blocks(limits)


def missing_blocks(sequences: Iterable[Sequence], limits: Limits) -> int:
    """Blocks that sequences which are here, or about to be, still lack to get on for a while."""
    missing = 0
    for one in sequences:
        if is_here(one) and one.ending is None:
            missing += max(wanted_blocks(len(one.tokens), one.limit, limits) - len(one.table), 0)
            # The last block of an output may be another one's too: then it is to be copied.
            may_share = one.frozen and one.request.outputs > 1
            missing += may_share and one.launched % limits.tokens_per_block > 0
    return missing


def is_here(sequence: Sequence) -> bool:
    """Whether a sequence's blocks are on the device and stay there, or are on their way to it."""
    return not sequence.parked or sequence.residency == Residency.RETURNING


def want_of(request: Request, blocks: int, running: bool = False) -> Want:
    """That a request waits for so many blocks, as other engines are told of it."""
    return Want(request.root, request.kept.priority, request.kept.arrived, blocks, running)
