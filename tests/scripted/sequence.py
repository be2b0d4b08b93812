"""A sequence as the scripted executor works on it."""

from dataclasses import dataclass, field

from blockmgr.core.states import FinishReason, Residency
from executor.manager.mapping import PoolMapping
from tests.scripted.commands import Row
from tests.scripted.workload import Request

BEYOND_STOP = 3
"""Positions that may be launched behind the place where a ``stop`` ends, since nobody knows it yet."""


@dataclass(slots=True)
class Sequence:
    """Positions below ``launched`` are written by launched steps, those below ``completed`` by completed ones.

    ``fed`` is the next position to feed. It lies below ``launched`` where the last token is fed a second time, to sample
    what follows it once more.
    """

    request: Request
    handle: int
    tokens: list[int]
    """Prompt and output as far as it is known here, recorded or not."""
    table: list[int] = field(default_factory=list)
    fed: int = 0
    launched: int = 0
    completed: int = 0
    recorded: int = 0
    delivered: int = 0
    sampling: int = 0
    """Samples in flight, each of which becomes a token."""
    in_flight: int = 0
    """Rows in flight."""
    vector: bytes = b""
    """Of a beam: the vector of its last token, once it is computed."""
    reported: tuple[int, int] = (0, 0)
    reportable_from: int = 0
    """Command that has to complete before progress is reported: until then hits may still be being written."""
    cached: int = 0
    """Positions that are computed once that command has completed."""
    frozen: bool = False
    """Nothing may be written before a reservation is answered: a block may have become shared."""
    short: bool = False
    awaiting: int = 0
    copied: dict[int, int] = field(default_factory=dict)
    """Table entries that are copied, and not yet reported so: index → destination."""
    copying: int = 0
    """Copies in flight."""
    residency: Residency = Residency.DEVICE
    moving: set[int] = field(default_factory=set)
    """Tickets of a swap under way that are not yet known to the manager as done."""
    swapped: bool = False
    known_to_device: bool = False
    forked: bool = True
    ending: FinishReason | None = None
    held: bool = False
    """Launch nothing: it is about to leave for the host tier, or its beams are about to move."""
    suspect: bool = False

    @property
    def is_beam(self) -> bool:
        """Whether its tokens come by reordering its group."""
        return self.request.kind == "beams"

    @property
    def length(self) -> int:
        """Tokens known or being sampled."""
        return len(self.tokens) + self.sampling

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)

    @property
    def limit(self) -> int:
        """Positions to feed at most: the last token never is. Where a ``stop`` ends is not known ahead."""
        if not self.forked:
            return self.prompt
        beyond = BEYOND_STOP if self.request.kind == "stop" else 0
        return self.request.target - 1 + beyond

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is in flight."""
        return not self.in_flight

    def wants_to_run(self) -> bool:
        """Whether there is something to feed."""
        return self.ending is None and self.fed < min(self.length, self.limit) and not self.held

    def next_row(self, chunk: int, size: int) -> Row | None:
        """Its part of the next step, if it can have one now: at most ``chunk`` positions, inside its blocks of ``size``."""
        if self.awaiting or self.residency != Residency.DEVICE or not self.wants_to_run():
            return None
        start, known = self.fed, len(self.tokens)
        end = start + 1 if start >= known else min(start + chunk, known, self.limit)
        room = next((i for i, block in enumerate(self.table) if not block), len(self.table)) * size
        end = min(end, room, self.launched if self.frozen else room)
        if end <= start:
            return None
        samples = end == self.length
        return Row(
            key=self.request.key,
            table=self.table[: -(-end // size)],
            start=start,
            tokens=self.tokens[start:end] if start < known else None,
            write_from=self.launched,
            seed=self.request.seed if samples else None,
            salt=self.request.salt,
            prefix=None if self.known_to_device else self.tokens[:start],
        )

    def launch(self, row: Row) -> int:
        """Note that a row is launched. Returns the position behind it."""
        end = row.start + (len(row.tokens) if row.tokens else 1)
        self.fed = end
        self.launched = max(self.launched, end)
        self.known_to_device = True
        self.in_flight += 1
        if row.seed is not None and not self.is_beam:
            self.sampling += 1
        return end

    def complete(self, end: int, sampled: tuple[int, bytes] | None) -> None:
        """Note that a row up to position ``end`` has completed."""
        self.in_flight -= 1
        self.completed = max(self.completed, end)
        if sampled is None:
            return
        token, vector = sampled
        if self.is_beam:
            self.vector = vector
            return
        self.sampling -= 1
        if self.ending is None and len(self.tokens) < self.request.target:
            self.tokens.append(token)
        if len(self.tokens) == self.request.target and self.ending is None:
            self.ending = FinishReason.STOP if self.request.kind == "stop" else FinishReason.LENGTH

    def update(self, first: int, blocks: list[int], size: int) -> list[int]:
        """Take new table entries. Returns blocks that nothing of this sequence is in yet."""
        self.table[first:] = blocks
        for index, destination in self.copied.items():
            if index < len(self.table):
                self.table[index] = destination
        return [
            block
            for index, block in enumerate(blocks, first)
            if block and index * size >= self.launched and index not in self.copied
        ]

    def take_report(self, upto: int) -> bool:
        """Note what the manager is about to hear of its progress. Returns whether that is news."""
        if upto >= self.reportable_from:
            self.completed = max(self.completed, self.cached)
            progress = (self.launched, self.completed)
            if progress != self.reported:
                self.reported = progress
                return True
        return False

    @property
    def is_level(self) -> bool:
        """Whether all that was launched has completed and is being reported."""
        return self.is_idle and self.launched == self.completed and self.reported == (self.launched, self.completed)

    def resume_ending(self) -> None:
        """An adopted sequence may have all its tokens already."""
        if len(self.tokens) >= self.request.target:
            self.ending = FinishReason.LENGTH

    def describe(self) -> str:
        """Where it stands, in a line."""
        flags = ("frozen", "short", "awaiting", "held", "suspect", "copied", "moving", "ending")
        set_ = [f"{name}={value}" for name in flags if (value := getattr(self, name))]
        return (
            f"{self.request.kind} {self.request.uuid[:8]} {len(self.tokens)}/{self.request.target} fed {self.fed} "
            f"launched {self.launched} completed {self.completed} recorded {self.recorded} "
            f"blocks {len(self.table)} {self.residency.name} {' '.join(set_)}"
        )

    @classmethod
    def adopted(cls, mapping: PoolMapping, handle: int, forked: bool) -> "Sequence":
        """What a dead executor left, from its row in the ledger."""
        row = mapping.ledger.row(handle)
        assert row is not None
        tokens = row.tokens.tolist()
        request = Request.from_bytes(row.request, tokens[: row.prompt])
        base = mapping.ledger.geometry.host_base
        residency = Residency(row.residency)
        away = residency == Residency.HOST or any(block >= base for block in row.table.tolist())
        return cls(
            request=request,
            handle=handle,
            tokens=tokens,
            table=[block if block < base else 0 for block in row.table.tolist()],
            fed=row.resume,
            launched=row.launched,
            completed=row.computed,
            recorded=len(tokens),
            reported=(row.launched, row.computed),
            frozen=True,
            residency=Residency.HOST if away else Residency.DEVICE,
            swapped=True,
            forked=forked or len(tokens) > row.prompt,
        )
