"""A sequence as the engine works on it."""

from dataclasses import dataclass, field

from blockmgr.core.geometry import slot_of
from blockmgr.core.states import FinishReason, Residency
from executor.engine.request import Request
from executor.found_outputs import is_search


@dataclass(slots=True, eq=False)
class Sequence:
    """Positions below ``launched`` are written by launched steps, those below ``computed`` by completed ones.

    The table, its slot and its handle are the manager's; what stands here is this engine's copy.
    """

    request: Request
    handle: int
    tokens: list[int]
    """Prompt and output as far as they are known here, recorded or not."""
    table: list[int] = field(default_factory=list)
    """Block ids. 0 stands for a block that is still on its way from the host tier."""
    blocks: int = 0
    """Leading entries of the table behind which there is a block."""
    launched: int = 0
    computed: int = 0
    recorded: int = 0
    """Tokens that the manager has recorded."""
    sampling: int = 0
    """Samples in flight, each of which becomes a token."""
    in_flight: int = 0
    """Rows in flight."""
    reported: tuple[int, int] = (0, 0)
    """Progress as the manager knows it."""
    reportable_from: int = 0
    """Device command that has to complete before progress is reported: until then hits may still be being written."""
    cached: int = 0
    """Positions that are computed once that command has completed."""
    cached_tokens: int = 0
    """Tokens of the prompt that came from the prefix cache."""
    frozen: bool = False
    """Nothing may be written before a reservation is answered: a block may have become shared."""
    asked: int = 0
    """Positions for which blocks have been asked for, got or not."""
    awaiting: int = 0
    """Handle of the sequence that is about to fill the next block; 0: none."""
    copied: dict[int, int] = field(default_factory=dict)
    """Table entries that are copied, and not yet reported so: index → destination."""
    final: int = 0
    """Tokens that count, where a front door found a stop string; 0: all."""
    ending: FinishReason | None = None
    error_id: str = ""
    suspect: bool = False
    """Executors died with it, twice and without progress: it runs alone."""
    doubtful: bool = False
    """A step failed that it was part of: it runs alone until it has shown that it can."""
    failures: int = 0
    """Steps that failed with it alone."""
    residency: Residency = Residency.DEVICE
    """Where its blocks are, as the manager knows it."""
    parked: bool = False
    """Nothing of it is launched: it is to make room, away, or on its way back."""
    moving: set[int] = field(default_factory=set)
    """Copies between the tiers that are not done, or not known to the manager to be."""
    came_back: int = 0
    """Tokens that it had when it came back last: until it has one more it does not make room again."""
    stuck: bool = False
    """It stands still: there was no block for its next position."""
    ranking: int = 0
    """How many of the likeliest tokens its steps are to name, where it is a beam."""
    is_beam: bool = field(init=False)
    """Its tokens are not sampled: they come from outside, with a move of all beams of its search."""
    slot: int = field(init=False)
    """Row of the ledger's columns, and of the tables on the device."""
    prompt: int = field(init=False)
    """Tokens of the prompt."""
    limit: int = field(init=False)
    """Positions to feed at most: the last token never is."""

    def __post_init__(self) -> None:
        # Asked for in every step: worked out once.
        self.slot = slot_of(self.handle)
        self.is_beam = is_search(self.request.kept)
        self.prompt = len(self.request.prompt)
        self.limit = self.request.longest - 1

    @property
    def length(self) -> int:
        """Tokens known or being sampled."""
        return len(self.tokens) + (0 if self.is_beam else self.sampling)

    @property
    def is_prefill(self) -> bool:
        """Whether more than its last token is still to be fed."""
        return self.launched < len(self.tokens) - 1

    def wants_to_run(self) -> bool:
        """Whether there is something to feed, blocks or not."""
        if self.ending is not None or self.awaiting or self.parked:
            return False
        return self.launched < min(self.length, self.limit)

    def room(self, tokens_per_block: int) -> int:
        """Positions that may be written: those of blocks that are here, and none while a block may be shared."""
        return self.launched if self.frozen else self.blocks * tokens_per_block

    def runnable(self, most: int, tokens_per_block: int) -> int:
        """Positions that a step may feed now, at most ``most``; 0: none."""
        if not self.wants_to_run():
            return 0
        known = len(self.tokens)
        end = self.launched + 1 if self.launched >= known else min(self.launched + most, known, self.limit)
        return max(min(end, self.room(tokens_per_block)) - self.launched, 0)

    def launch(self, count: int) -> bool:
        """Note that ``count`` positions are launched. Returns whether the row samples."""
        self.launched += count
        self.in_flight += 1
        samples = self.launched == self.length
        self.sampling += samples
        return samples

    def complete(self, end: int, token: int | None) -> None:
        """Note that a row up to position ``end`` has completed, and the token that it sampled."""
        self.in_flight -= 1
        self.computed = max(self.computed, end)
        self.failures, self.doubtful = 0, False
        if token is not None:
            self.sampling -= 1
            if self.ending is None and not self.is_beam:
                self.tokens.append(token)
                self.find_end()

    def fail(self, samples: bool) -> None:
        """Note that a row did not complete."""
        self.in_flight -= 1
        self.sampling -= samples

    def find_end(self) -> None:
        """End where the last token ends it. A token that is both the last allowed and an end is a stop."""
        ended = len(self.tokens) > self.prompt and self.tokens[-1] in self.request.end_ids
        if ended or 0 < self.final <= len(self.tokens):
            self.ending = FinishReason.STOP
        elif len(self.tokens) >= self.request.longest:
            self.ending = FinishReason.LENGTH

    def end(self, reason: FinishReason) -> None:
        """End for a reason from outside; the first reason counts."""
        self.ending = self.ending or reason

    def stop_at(self, length: int) -> None:
        """A front door found a stop string: nothing behind ``length`` tokens counts."""
        self.final = min(length, self.final or length)
        if len(self.tokens) >= self.final:
            self.end(FinishReason.STOP)

    def update(self, first: int, blocks: list[int]) -> list[tuple[int, int]]:
        """Take new table entries from the manager. Returns index and block of each as the device has to have it."""
        self.table[first:] = blocks
        for index, destination in self.copied.items():
            if index < len(self.table):
                self.table[index] = destination
        self._count_blocks()
        return list(enumerate(self.table[first:], first))

    def redirect(self, index: int, destination: int) -> None:
        """From now on a table entry is the block that it is copied to; the manager's table names the source still."""
        self.copied[index] = destination
        if index < len(self.table):
            self.table[index] = destination
        self._count_blocks()

    def _count_blocks(self) -> None:
        self.blocks = self.table.index(0) if 0 in self.table else len(self.table)

    def start_at(self, cached: int, awaiting: int, serial: int) -> int:
        """Go on behind hits, which the device has once it has completed command ``serial``. Returns how many are new."""
        new = max(cached - self.launched, 0)
        if new:
            self.cached_tokens += new
            self.launched = self.cached = cached
            self.reportable_from = serial
            self.reported = (cached, -1)
        self.awaiting = awaiting
        return new

    def restart_at(self, position: int) -> None:
        """Go back to what is computed, after a failed step. Nothing may be in flight."""
        self.launched = self.computed = position
        self.cached = self.reportable_from = self.asked = 0
        self.reported = (position, position)
        self.frozen = True
        self.awaiting = 0

    def look_before_computing(self, tokens_per_block: int) -> None:
        """Have the manager look first whether others have computed, or are about to compute, more of the prompt."""
        if self.is_prefill and self.launched < self.prompt and not self.launched % tokens_per_block:
            self.awaiting = self.handle

    def take_report(self, completed: int) -> bool:
        """Note what the manager is about to hear of its progress, given the last command that the device has completed.

        Returns whether that is news.
        """
        if completed < self.reportable_from:
            return False
        self.computed = max(self.computed, self.cached)
        progress = (self.launched, self.computed)
        news = progress != self.reported
        self.reported = progress
        return news

    def leave(self, residency: Residency) -> None:
        """Its blocks are on their way to the host tier or there; or they are given up, and nothing of it is computed."""
        self.residency, self.stuck = residency, False
        self.table, self.blocks = [], 0
        if residency == Residency.RELEASED:
            self.restart_at(0)
            self.frozen = False

    def come_back(self) -> None:
        """Its blocks are on the device: it goes on."""
        self.residency, self.parked = Residency.DEVICE, False
        self.came_back = len(self.tokens)

    @property
    def has_advanced(self) -> bool:
        """Whether it got a token since it came back, or never was away."""
        return len(self.tokens) > self.came_back

    @property
    def is_level(self) -> bool:
        """Whether all that was launched has completed and is reported."""
        return not self.in_flight and self.launched == self.computed and self.reported == (self.launched, self.computed)

    def describe(self) -> str:
        """Where it stands, in a line."""
        names = ("frozen", "awaiting", "copied", "ending", "suspect", "doubtful", "parked", "residency")
        flags = " ".join(f"{name}={value!r}" for name in names if (value := getattr(self, name)))
        return (
            f"{self.request.uuid.hex()} {len(self.tokens)}/{self.request.longest} launched {self.launched} "
            f"computed {self.computed} recorded {self.recorded} blocks {len(self.table)} {flags}"
        )
