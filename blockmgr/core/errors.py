"""Errors of the allocator. Each names what was wrong, the value and the limit; ``service`` turns them into gRPC status."""


class BlockManagerError(Exception):
    """Base of every error that a caller of the block manager can cause or meet."""


class InvalidMessage(BlockManagerError):
    """A field of a message cannot be right. The message changed nothing."""

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value}, but {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class StaleEpoch(BlockManagerError):
    """The sender's registration is over: another took its place, or it was fenced. It must exit."""

    def __init__(self, epoch: int, current: int | None = None) -> None:
        now = "no registration with this epoch is alive" if current is None else f"the current epoch is {current}"
        super().__init__(f"epoch {epoch} is stale: {now}")
        self.epoch = epoch


class PoolLost(StaleEpoch):
    """The sender's pool is no more: its memory went with the process that held it. It must exit, and begin anew."""

    def __init__(self, epoch: int, why: str) -> None:
        super().__init__(epoch)
        self.args = (f"epoch {epoch} is stale: the memory of its pool is gone, with all that was in it: {why}",)


class MessageOutOfOrder(BlockManagerError):
    """A message number that is neither the last one handled nor its successor."""

    def __init__(self, number: int, last: int) -> None:
        super().__init__(
            f"message number is {number}, but the last one handled is {last}: send {last} again or {last + 1}"
        )
        self.number = number
        self.last = last


class PoolExhausted(BlockManagerError):
    """Fewer blocks can be had than asked for. Nothing was taken."""

    def __init__(self, needed: int, available: int, tier: str = "device") -> None:
        super().__init__(f"{needed} {tier} blocks are needed, {available} are free or can be evicted")
        self.needed = needed
        self.available = available


class NotFound(BlockManagerError):
    """The block, sequence, executor, pin or pool that was named does not exist."""


class AlreadyExists(BlockManagerError):
    """The name is taken by something alive."""


class Precondition(BlockManagerError):
    """Right in form, impossible in the present state; the text says what stands in the way."""


class IdentityMismatch(Precondition):
    """The pool holds KV of another shape or another model."""

    def __init__(self, what: str, have: str, offered: str) -> None:
        super().__init__(f"{what} of the pool is {have}, the executor's is {offered}")
        self.have = have
        self.offered = offered


class LedgerCorrupt(BlockManagerError):
    """What lies in the ledger contradicts itself; the text names the place."""
