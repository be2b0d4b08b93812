"""A plain model of memory, sequences and devices, as the callers of a pool see them.

Memory remembers, for each position of each block, which token behind which prefix was written there last. A device
executes what was launched on it, in order and late, and checks on the way that every position it reads holds what that
sequence's own prefix put there. Nothing here knows how the allocator works.
"""

from collections import deque
from dataclasses import dataclass, field

from blockmgr.core.states import TicketKind

Cell = bytes | None
"""What a position holds: root and tokens up to and with its own; None: garbage."""


class Memory:
    """The blocks of both tiers, by their ledger numbers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._blocks: dict[int, list[Cell]] = {}

    def cells(self, block: int) -> list[Cell]:
        return self._blocks.setdefault(block, [None] * self.size)

    def poison(self, block: int) -> None:
        self._blocks[block] = [None] * self.size

    def copy(self, source: int, destination: int) -> None:
        self._blocks[destination] = list(self.cells(source))


@dataclass(eq=False)
class Copy:
    """A copy that is ordered: from its place in the stream on, its sequence writes to the destination."""

    ticket: int
    kind: TicketKind
    index: int
    source: int
    destination: int
    position: int
    """Positions of its sequence launched before it."""
    serial: int = 0
    executed: bool = False


@dataclass(eq=False)
class Sequence:
    """What an executor knows of one sequence. ``tokens`` runs ahead of what the manager has been told."""

    handle: int
    uuid: bytes
    root: bytes
    family: bytes
    prompt: int
    tokens: list[int]
    recorded: int
    launched: int
    table: list[int]
    reported: int = 0
    """Positions launched, as the manager was told."""
    base: int = 0
    """Positions computed whatever happens."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """(serial, position): positions below are computed once the device has executed that piece of work."""
    known: list[tuple[int, int]] = field(default_factory=list)
    """(serial, count): so many tokens are sampled once the device has executed that piece of work."""
    copies: dict[int, Copy] = field(default_factory=dict)
    """Table index → copy that is not reported done."""
    barred: bool = False
    """Shares a block perhaps: reserve before writing."""
    busy: bool = False
    """Something is asked for it that forbids launching until the reply."""
    away: bool = False
    """In the host tier, or on the way there or back, or nowhere."""
    released: bool = False
    """It gave up its blocks."""
    final: bool = False

    def cell(self, position: int) -> bytes:
        return self.root + bytes(self.tokens[: position + 1])

    def where(self, index: int) -> int:
        """The block that a step launched now uses for a table entry."""
        copy = self.copies.get(index)
        return copy.destination if copy is not None else self.table[index]

    def computed(self, done: int) -> int:
        return max([self.base, *(position for serial, position in self.marks if serial <= done)])

    def reportable(self, done: int) -> int:
        """Computed positions, without those that lie behind a copy which is not reported done."""
        behind = [c.position for c in self.copies.values() if c.kind in (TicketKind.COPY_ON_WRITE, TicketKind.MOVE)]
        return min([self.computed(done), *behind])

    def sampled(self, done: int) -> int:
        return max([self.recorded, *(count for serial, count in self.known if serial <= done)])

    def reset(self, position: int, count: int) -> None:
        """Forget what was in flight: ``position`` positions are computed and ``count`` tokens known."""
        self.launched = self.reported = self.base = position
        self.marks, self.known = [], []
        del self.tokens[count:]


@dataclass(eq=False)
class Row:
    """One sequence's part of a step: writes positions ``start`` up to the end and reads all before it."""

    start: int
    cells: list[bytes]
    blocks: list[int]


@dataclass(eq=False)
class Step:
    """A launched step. A void one still runs, and writes garbage where it was going to write."""

    number: int
    rows: list[Row]
    serial: int = 0
    void: bool = False
    executed: bool = False


class Device:
    """One executor's stream: steps and copies, executed in the order in which they were launched."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.queue: deque[Step | Copy] = deque()
        self.serial = 0
        self.done = 0
        """Serial of the last piece of work executed."""
        self.launched = 0
        self.completed = 0
        """Numbers of the last step launched and executed."""

    def launch(self, work: Step | Copy) -> None:
        self.serial += 1
        work.serial = self.serial
        self.queue.append(work)

    def execute(self, count: int) -> None:
        while self.queue and count:
            count -= 1
            work = self.queue.popleft()
            if isinstance(work, Copy):
                self.memory.copy(work.source, work.destination)
            else:
                self._run(work)
                self.completed = work.number
            work.executed = True
            self.done = work.serial

    def _run(self, step: Step) -> None:
        size = self.memory.size
        for row in step.rows:
            for position in range(row.start, len(row.cells)):
                block = row.blocks[position // size]
                assert block > 0, f"step {step.number} writes into block {block}"
                self.memory.cells(block)[position % size] = None if step.void else row.cells[position]
        for row in step.rows if not step.void else ():
            for position, want in enumerate(row.cells):
                block = row.blocks[position // size]
                have = self.memory.cells(block)[position % size]
                assert have == want, f"step {step.number} reads {have!r} in block {block} at {position}, not {want!r}"

    def touches(self) -> set[int]:
        """Blocks that anything launched and not executed may read or write."""
        found: set[int] = set()
        for work in self.queue:
            if isinstance(work, Copy):
                found |= {work.source, work.destination}
            else:
                found.update(block for row in work.rows for block in row.blocks)
        return found
