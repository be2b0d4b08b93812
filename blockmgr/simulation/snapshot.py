"""How many requests fit into a pool at once, and how much of what they reserve they use."""

from collections.abc import Sequence
from dataclasses import dataclass

from blockmgr.core.states import Refusal
from blockmgr.simulation.contiguous import ContiguousPool
from blockmgr.simulation.driver import Driver
from blockmgr.simulation.workload import Request


def percent(part: float, whole: float) -> float:
    """``part`` in per cent of ``whole``, to two places; 0 of nothing."""
    return round(100 * part / whole, 2) if whole else 0.0


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What a pool holds at one moment. All but ``admitted`` and the percentages are slots, one a token."""

    admitted: int
    usable: int
    reserved: int
    tokens: int
    utilisation_percent: float
    """Tokens of all usable slots."""
    fragmentation_percent: float
    """Reserved slots that hold no token, of all reserved: internal fragmentation."""

    @classmethod
    def of(cls, admitted: int, usable: int, reserved: int, tokens: int) -> "PoolUse":
        """Add the percentages."""
        waste = percent(reserved - tokens, reserved)
        return cls(admitted, usable, reserved, tokens, percent(tokens, usable), waste)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both pools with every request that they admit at its final length."""

    slots: int
    max_seq_len: int
    tokens_per_block: int
    requests: int
    contiguous: PoolUse
    paged: PoolUse


def take_snapshot(requests: Sequence[Request], slots: int, max_seq_len: int, tokens_per_block: int) -> Snapshot:
    """Offer all requests, in order, to both pools; one that is refused is dropped."""
    return Snapshot(
        slots,
        max_seq_len,
        tokens_per_block,
        len(requests),
        _contiguous(requests, slots, max_seq_len),
        _paged(requests, slots, max_seq_len, tokens_per_block),
    )


def _contiguous(requests: Sequence[Request], slots: int, max_seq_len: int) -> PoolUse:
    pool = ContiguousPool(slots)
    for number, request in enumerate(requests):
        pool.admit(str(number), request.final, max_seq_len)
    return PoolUse.of(len(pool.reservations), slots, pool.reserved, pool.tokens)


def _paged(requests: Sequence[Request], slots: int, max_seq_len: int, tokens_per_block: int) -> PoolUse:
    driver = Driver(
        slots // tokens_per_block, tokens_per_block, max_sequences=max(len(requests), 1), max_length=max_seq_len
    )
    answers = driver.admit([request.prompt for request in requests], [request.final for request in requests])
    tokens = sum(
        request.final for request, answer in zip(requests, answers, strict=True) if answer.refusal == Refusal.NONE
    )
    return PoolUse.of(len(driver.lengths), driver.usable_slots, driver.reserved_slots, tokens)
