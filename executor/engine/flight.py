"""The steps in flight: what has been launched and not completed, and what a failed step leaves to be done."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from blockmgr.core.states import FinishReason
from executor.engine.assembly import Assembler, PendingChanges, Row
from executor.engine.beams import Candidates
from executor.engine.device import Device
from executor.engine.scheduler import Part
from executor.engine.sequence import Sequence
from executor.engine.step import Done

log = structlog.get_logger()

DEPTH = 2
"""Steps in flight at most: one that the device works on, and one behind it."""

FAILURES = 2
"""Steps that fail with a sequence alone before it is to blame."""


@dataclass(slots=True)
class Landed:
    """What came of some completions."""

    steps: int = 0
    seconds: list[float] = field(default_factory=list)
    """How long the device worked on each that did not fail."""
    fed: list[tuple[int, float]] = field(default_factory=list)
    """Of each step that fed more than a token a sequence: tokens fed, and how long the device worked on it."""
    tickets: list[int] = field(default_factory=list)
    """Copies done."""
    copied: list[tuple[int, float]] = field(default_factory=list)
    """Blocks copied together, and how long that took, where the device says."""
    moved: list[Sequence] = field(default_factory=list)
    """Sequences whose prompts were computed further."""
    ranked: list[tuple[Sequence, Candidates]] = field(default_factory=list)
    """Beams, and what may follow each."""
    sampled: int = 0
    """Tokens sampled that count."""


class Flight:
    """Launches steps and takes what they say. Owned by the engine's thread."""

    def __init__(self, device: Device, masked: frozenset[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._device = device
        self._assembler = Assembler(masked)
        self._clock = clock
        self._rows: dict[int, list[Row]] = {}
        self._launched_at: dict[int, float] = {}
        self.changes = PendingChanges()
        self.launched_step = 0
        self.completed_step = 0
        """The last step that completed; a failed one, and what followed it, only once the failure is reported."""
        self.failed = False
        """A step has failed: nothing is launched until the manager has heard of it."""

    @property
    def count(self) -> int:
        """Steps in flight."""
        return len(self._rows)

    @property
    def may_launch(self) -> bool:
        """Whether another step may follow."""
        return len(self._rows) < DEPTH and not self.failed

    @property
    def failure_is_due(self) -> bool:
        """Whether a failure can be reported: nothing is in flight any more."""
        return self.failed and not self._rows

    @property
    def oldest(self) -> float:
        """Seconds for which the step launched first of those in flight has been so; 0: none is."""
        return self._clock() - min(self._launched_at.values()) if self._launched_at else 0.0

    def describe_oldest(self) -> dict[str, int]:
        """What the step that was launched first of those in flight consists of, for logs."""
        if not self._rows:
            return {}
        step, rows = next(iter(self._rows.items()))
        longest = max(row.start + row.count for row in rows)
        return {"step": step, "rows": len(rows), "tokens": sum(row.count for row in rows), "longest": longest}

    def launch(self, parts: list[Part]) -> None:
        """Launch a step of these parts."""
        rows = []
        for sequence, count in parts:
            start = sequence.launched
            rows.append(Row(sequence, start, count, sequence.launch(count)))
        self.launched_step += 1
        self._device.launch(self._assembler.assemble(self.launched_step, rows, self.changes.take()))
        self._rows[self.launched_step] = rows
        self._launched_at[self.launched_step] = self._clock()

    def land(self) -> Landed:
        """Take what has completed."""
        landed = Landed()
        for done in self._device.completions():
            if not done.step:
                landed.tickets += done.tickets
                if done.seconds:
                    landed.copied.append((len(done.tickets), done.seconds))
                continue
            rows = self._rows.pop(done.step)
            del self._launched_at[done.step]
            landed.steps += 1
            if done.error:
                self._fail(rows, done)
            else:
                self.completed_step = done.step
                landed.seconds.append(done.seconds)
                fed = sum(row.count for row in rows)
                if fed > len(rows):
                    landed.fed.append((fed, done.seconds))
                self._complete(rows, done, landed)
        return landed

    def take_failure(self) -> None:
        """The failure is being reported: every step is over."""
        self.completed_step = self.launched_step

    def resume(self) -> None:
        """The manager has heard of the failure: steps may follow."""
        self.failed = False
        self._device.resume()

    def _complete(self, rows: list[Row], done: Done, landed: Landed) -> None:
        ids = iter(done.ids.tolist())
        ranked = zip(done.ranked_ids.tolist(), done.ranked_logprobs.tolist(), strict=True)
        for row in rows:
            sequence, token = row.sequence, next(ids) if row.samples else None
            candidates = Candidates(*next(ranked)) if row.samples and sequence.ranking else None
            if token is not None and token < 0:
                sequence.complete(row.end, None)
                sequence.sampling -= 1
                self._blame(sequence, f"step {done.step} computed no number for it")
                continue
            going = sequence.ending is None
            sequence.complete(row.end, token)
            if candidates is not None:
                landed.ranked.append((sequence, candidates))
            if token is not None:
                landed.sampled += going
            elif going:
                landed.moved.append(sequence)

    def _fail(self, rows: list[Row], done: Done) -> None:
        self.failed = True
        for row in rows:
            row.sequence.fail(row.samples)
        if done.follows_failure:
            return
        alone = len(rows) == 1
        for row in rows:
            row.sequence.doubtful = True
            row.sequence.failures += alone
            if row.sequence.failures >= FAILURES:
                self._blame(row.sequence, f"step {done.step} failed with it alone: {done.error}")

    def _blame(self, sequence: Sequence, why: str) -> None:
        """End a sequence that cannot be computed. Only the log says why: a client gets the id to ask for it."""
        if sequence.ending is None:
            sequence.error_id = uuid.uuid4().hex
            log.error(
                "a sequence cannot be computed", uuid=sequence.request.uuid.hex(), error_id=sequence.error_id, why=why
            )
            sequence.end(FinishReason.INTERNAL)
