"""The states that things in a pool can be in. The numbers are stored in the ledger: never renumber, only append."""

from enum import IntEnum, IntFlag


class BlockState(IntEnum):
    """Where a block is in its life. ``FREE`` is zero so that a fresh, sparse ledger is a pool of free blocks."""

    FREE = 0
    """In the free list; holds nothing worth keeping."""
    NULL = 1
    """Block 0 of the device: always zero, read by padding, never allocated, never written."""
    OWNED = 2
    """In at least one table and not full yet, or full with tokens not all recorded."""
    FILLING = 3
    """Full, and the step that writes its last position is launched; indexed for its own executor's eyes."""
    SEALED = 4
    """Full, written and immutable, with at least one reference."""
    CACHED = 5
    """Sealed and indexed, without a reference: a later prompt may hit it, or it may be evicted."""
    FENCED = 6
    """Given up, but a launched step may still touch it: becomes FREE when its fence opens."""
    ABSENT = 7
    """Beyond the pool's present size: no memory stands behind it."""
    TARGET = 8
    """Destination of a copy that is ordered and not yet reported done; in no table until then."""


class SequenceState(IntEnum):
    """What a slot of the sequence table holds."""

    FREE = 0
    LIVE = 1
    """Worked on by the executor that owns it."""
    ORPHANED = 2
    """Its executor is proven dead: waits, whole, for one that adopts it."""


class Residency(IntEnum):
    """Which tier a sequence's blocks are in."""

    DEVICE = 0
    LEAVING = 1
    """Copies to the host tier are ordered; the device is the truth until each is done."""
    HOST = 2
    RETURNING = 3
    """Copies back are ordered; the host is the truth until each is done."""
    RELEASED = 4
    """Its blocks are given up; what it needs of them is computed again when it comes back."""


class ExecutorState(IntEnum):
    """What the pool knows of an executor."""

    EMPTY = 0
    STARTING = 1
    """Registered, loading; its predecessor's sequences wait for it without a time limit."""
    LIVE = 2
    FENCING = 3
    """Its epoch is revoked and its messages are refused, but its processes are not proven dead: nothing of it moves."""
    DEAD = 4
    """Every process of it is proven dead; its row stays while sequences wait to be adopted."""


class TicketKind(IntEnum):
    """Why a block is copied."""

    NONE = 0
    COPY_ON_WRITE = 1
    SWAP_OUT = 2
    SWAP_IN = 3
    MOVE = 4
    """Out of the part of the pool that a resize takes away."""
    DEMOTE = 5
    """A cached block to the host tier, ahead of need; belongs to no sequence."""


class FinishReason(IntEnum):
    """Why a sequence ended. Stored with the finished request."""

    UNSPECIFIED = 0
    STOP = 1
    LENGTH = 2
    CANCELLED = 3
    DEADLINE = 4
    UNAVAILABLE = 5
    """Its executor died and none adopted it in time."""
    INTERNAL = 6
    """It killed the executors that ran it."""
    REPLACED = 7
    """A beam that another beam took the place of."""


class Refusal(IntEnum):
    """Why a prompt, a fork or a swap was refused. Nothing was taken."""

    NONE = 0
    POOL_EXHAUSTED = 1
    """Not enough blocks now; the same request may succeed later."""
    NEVER_FITS = 2
    """Needs more blocks than the whole pool has."""
    NO_SLOTS = 3
    TOO_LONG = 4
    DUPLICATE = 5
    """The request is already in flight with another executor, or has finished."""
    BODY_MISMATCH = 6
    """Same request id, another body."""
    DRAINING = 7
    STALE_HANDLE = 8
    BUSY = 9
    """A copy of this sequence is ordered and not done; try again with the next message."""
    HOST_EXHAUSTED = 10
    INVALID = 11


class SequenceFlags(IntFlag):
    """How a sequence uses the prefix cache."""

    NONE = 0
    BYPASS = 1
    """Take no hits."""
    NO_STORE = 2
    """Leave nothing for others to hit."""
