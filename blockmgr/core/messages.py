"""What an executor tells the manager and what it hears back, one batch at a time.

Plain data, independent of the transport; ``blockmgr.service.codec`` carries it over gRPC. Arrays of one group run in
parallel: element i of each speaks of the same sequence. A sequence is named by its handle (see ``geometry.handle_of``).
Block numbers are those of the pool's own tier: device blocks count from 0 (the null block), host blocks likewise.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.states import FinishReason, Refusal, SequenceFlags, TicketKind

Ints = NDArray[np.int64]
NONE: Ints = np.zeros(0, dtype=np.int64)
NONE.flags.writeable = False


@dataclass(slots=True)
class Progress:
    """How far the KV of each sequence has come. Absolute, so it may be repeated.

    ``launched[i]``: positions below it are written by steps launched so far. ``computed[i]``: positions below it are
    written by completed steps; less than was reported before, or than the pool knows of its hits, is no error. The cached
    tokens of an admission count as computed once the step that was launched last when it was asked for has completed.
    What was written behind a copy is computed only with, or after, the report that the copy is done.
    """

    handles: Ints = field(default_factory=lambda: NONE)
    launched: Ints = field(default_factory=lambda: NONE)
    computed: Ints = field(default_factory=lambda: NONE)


@dataclass(slots=True)
class Appends:
    """Tokens to record: sequence i gets ``counts[i]`` of ``ids``, in order, from position ``starts[i]`` on.

    ``counts`` may be left empty: one each. Tokens that are there already must be equal. ``logprobs`` runs parallel to
    ``ids`` or is absent.
    """

    handles: Ints = field(default_factory=lambda: NONE)
    starts: Ints = field(default_factory=lambda: NONE)
    counts: Ints = field(default_factory=lambda: NONE)
    ids: Ints = field(default_factory=lambda: NONE)
    logprobs: NDArray[np.float32] | None = None


@dataclass(slots=True)
class Reservations:
    """Tables to make long enough for ``lengths[i]`` tokens, and if blocks are left for ``look_ahead[i]`` more."""

    handles: Ints = field(default_factory=lambda: NONE)
    lengths: Ints = field(default_factory=lambda: NONE)
    look_ahead: Ints = field(default_factory=lambda: NONE)


@dataclass(slots=True)
class Finished:
    """Sequences that end, and why."""

    handles: Ints = field(default_factory=lambda: NONE)
    reasons: list[FinishReason] = field(default_factory=list)


@dataclass(slots=True)
class Child:
    """What a fork has of its own."""

    uuid: bytes
    request: bytes = b""
    score: float = 0.0
    output: NDArray[np.int32] | None = None
    """Tokens that it has behind the prompt, in place of its parent's. It is kept for its tokens alone then, without blocks, as
    one that gave them up.
    """


@dataclass(slots=True)
class Fork:
    """Make ``children`` that share all that ``parent`` has computed: all of them or none."""

    parent: int
    children: list[Child]


@dataclass(slots=True)
class Reorder:
    """One move of a beam group: sequence i becomes old sequence ``parents[i]`` plus the token ``ids[i]``.

    ``parents`` are indexes into ``handles``. All at once, so that a beam that is both replaced and continued is safe.
    """

    handles: Ints
    parents: Ints
    ids: Ints
    scores: NDArray[np.float64]


@dataclass(slots=True)
class Admission:
    """A prompt that asks for a slot and blocks.

    ``reserve`` is the number of tokens to cover at once (0: the whole prompt); chunked prefill asks for less.
    ``caller`` is a digest of caller and request id (zeros: none); ``body`` a digest of the request.
    """

    uuid: bytes
    prompt: NDArray[np.int32]
    reserve: int = 0
    max_length: int = 0
    """Tokens of prompt and output at most (0: the pool's limit); a request that can never fit is refused by it."""
    salt: bytes = b""
    adapter: str = ""
    flags: SequenceFlags = SequenceFlags.NONE
    priority: int = 0
    caller: bytes = bytes(16)
    body: bytes = bytes(16)
    request: bytes = b""
    chain: list[bytes] | None = None
    """The prompt's chain of block hashes where it was computed ahead, off the loop."""


@dataclass(frozen=True, slots=True)
class Want:
    """A sequence, or a request, that waits for blocks. Of two the one of greater priority comes first, then the older one,
    then the one of smaller UUID: every executor orders them alike.
    """

    uuid: bytes
    priority: int = 0
    arrived: float = 0.0
    """Seconds since 1970."""
    blocks: int = 0
    """Blocks that it lacks."""
    running: bool = False
    """It has blocks, and who comes after it is expected to make room; otherwise it waits to be let in or to come back."""

    @property
    def rank(self) -> tuple[int, float, bytes]:
        """What it is ordered by: smaller ones come first."""
        return -self.priority, self.arrived, self.uuid


@dataclass(slots=True)
class Message:
    """Everything that happened at an executor since its last message, in the order in which it is handled."""

    epoch: int
    number: int
    launched_step: int | None = None
    """Last step launched, of a count that the executor starts at 1; None: as before."""
    completed_step: int | None = None
    """Last step completed on the device, failed ones included; None: as before."""
    failed: bool = False
    """A step failed on the device: what is not reported computed is void, and sequences are cut back to what is."""
    solo: int = 0
    """Handle of the sequence that runs alone because executors died with it; 0: none."""
    progress: Progress = field(default_factory=Progress)
    appends: Appends = field(default_factory=Appends)
    tickets_done: Ints = field(default_factory=lambda: NONE)
    forks: list[Fork] = field(default_factory=list)
    reorders: list[Reorder] = field(default_factory=list)
    finished: Finished = field(default_factory=Finished)
    swap_out: Ints = field(default_factory=lambda: NONE)
    release: Ints = field(default_factory=lambda: NONE)
    """Sequences that give up all their blocks, to be computed again later."""
    swap_in: Ints = field(default_factory=lambda: NONE)
    """Sequences to bring back, from the host tier or from where they gave up their blocks."""
    look_again: Ints = field(default_factory=lambda: NONE)
    """Sequences still in prefill whose next blocks another may have filled meanwhile."""
    reservations: Reservations = field(default_factory=Reservations)
    admissions: list[Admission] = field(default_factory=list)
    demote: int = 0
    """Cached blocks to copy to the host tier ahead of need, at most."""
    want: Want | None = None
    """What of this executor's waits for blocks and comes first; told to the others, and no part of the transaction."""


@dataclass(slots=True)
class TableUpdate:
    """The table of ``handle`` from entry ``first`` on is exactly ``blocks``; what stood behind is gone."""

    handle: int
    first: int
    blocks: Ints


@dataclass(slots=True)
class Ticket:
    """A copy to perform. ``handle`` is 0 and ``index`` -1 where it belongs to no sequence.

    Copies are performed in the order of the reply, before any step that is launched once the reply is there, on the
    stream that orders the executor's steps. From the copy on, the executor writes to ``destination``; the table names
    ``source`` until the ticket is reported done, which means that the copy has completed.
    """

    id: int
    kind: TicketKind
    handle: int
    index: int
    source: int
    destination: int


@dataclass(slots=True)
class Admitted:
    """What became of one admission, by its uuid."""

    uuid: bytes
    handle: int = 0
    cached: int = 0
    """Tokens of the prompt whose KV the executor need not compute."""
    awaiting: int = 0
    """Handle of a sequence that is about to fill the next block of this prompt; 0: none. Look again before computing."""
    refusal: Refusal = Refusal.NONE
    needed: int = 0
    available: int = 0
    """Blocks (or slots, tokens) asked for and to be had, where that is the reason."""
    detail: str = ""


@dataclass(slots=True)
class Forked:
    """What became of one fork: handles of the children in order, or a refusal."""

    parent: int
    handles: list[int] = field(default_factory=list)
    refusal: Refusal = Refusal.NONE
    needed: int = 0
    available: int = 0


@dataclass(slots=True)
class Swapped:
    """What became of one swap request that could not be met."""

    handle: int
    refusal: Refusal
    needed: int = 0
    available: int = 0


@dataclass(slots=True)
class LookedAgain:
    """Where a sequence goes on computing: a prompt after a second look into the prefix index, one that gave up its blocks
    when it comes back, or after a failed step every sequence of the executor.
    """

    handle: int
    cached: int
    awaiting: int = 0


@dataclass(slots=True)
class Reply:
    """The answer to a message; kept until the next one, and given again if the same message comes again."""

    number: int
    revision: int = 0
    tables: list[TableUpdate] = field(default_factory=list)
    short: list[int] = field(default_factory=list)
    """Reservations that could not be met; their sequences sit out the next step."""
    tickets: list[Ticket] = field(default_factory=list)
    admitted: list[Admitted] = field(default_factory=list)
    forked: list[Forked] = field(default_factory=list)
    swaps_refused: list[Swapped] = field(default_factory=list)
    looked_again: list[LookedAgain] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    """Handles that this executor does not own any more, or never did; what was said of them changed nothing."""
    cancel: list[int] = field(default_factory=list)
    """Sequences whose caller wants them ended."""
    final_lengths: list[tuple[int, int]] = field(default_factory=list)
    """Handles and the number of tokens at which they end, where a front door found a stop string."""
    drain: bool = False
    """Finish what you have; nothing new will be admitted."""
    free_blocks: int = 0
    """Device blocks that are free or can be evicted, for the scheduler's choice."""
    wanted: Want | None = None
    """What comes first of all that waits for blocks at the other executors."""
    usable_blocks: int = 0
    """Device blocks that a sequence could have if it were alone: the pool's size now, without the null block."""
    fenced_blocks: int = 0
    """Device blocks that were given up and can be had once the steps that may still touch them have completed."""
    cached_blocks: int = 0
    """Of ``free_blocks``, those that hold something cached, which is lost when they are handed out."""


@dataclass(slots=True)
class Adopted:
    """A sequence that changed hands: read its row under the new handle and go on at ``resume``.

    ``resume`` is the position of the next token to feed: KV is valid below it. ``previous`` is 0 if the sequence was the
    adopting executor's already.
    """

    handle: int
    previous: int
    resume: int
    tokens: int
    suspect: bool = False
    """Executors died twice with it and it made no progress: run it alone."""
