"""Short ways to talk to a pool, for tests that say one thing each."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from blockmgr.core.geometry import PoolGeometry, slot_of
from blockmgr.core.messages import (
    Admission,
    Admitted,
    Appends,
    Child,
    Finished,
    Fork,
    Forked,
    Ints,
    Message,
    Progress,
    Reply,
    Reservations,
    Ticket,
)
from blockmgr.core.pool import Pool
from blockmgr.core.states import BlockState, FinishReason, Refusal, SequenceState
from blockmgr.core.verify import verify
from tests.unit.core.memory_ledger import MemoryLedger

WIDE = ("slot.tokens", "slot.logprobs", "slot.table", "slot.request")


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def ids(count: int, first: int = 0) -> list[int]:
    """A prompt of its own for each ``first``."""
    return [first * 1000 + at for at in range(count)]


class Clock:
    """Time that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Talk:
    """A pool with a ledger, which is verified after every message."""

    def __init__(self, blocks: int = 40, size: int = 4, **sizes: int) -> None:
        defaults = {
            "max_sequences": 16,
            "max_length": 512,
            "max_executors": 4,
            "max_pins": 16,
            "request_bytes": 64,
            "reply_bytes": 1 << 20,
            "archive_bytes": 1 << 16,
            "archive_rows": 64,
        }
        self.geometry = PoolGeometry(size, 1, blocks, **(defaults | sizes))
        self.ledger = MemoryLedger(self.geometry)
        self.clock = Clock()
        self.pool = Pool(self.geometry, self.ledger, now=self.clock)

    def restart(self) -> None:
        """The manager dies and another one goes on."""
        self.pool = Pool(self.geometry, self.ledger, fresh=False, now=self.clock)
        self.verify()

    def verify(self) -> None:
        assert verify(self.pool.snapshot()) == []

    def executor(self, name: str = "a") -> "Talker":
        return Talker(self, name)

    def block(self, number: int) -> BlockState:
        return BlockState(self.pool.state.blocks.state.get(number))

    def refs(self, number: int) -> int:
        return self.pool.state.blocks.refs.get(number)

    def count(self, *states: BlockState) -> int:
        return int(np.isin(self.pool.state.blocks.state.flat, states).sum())

    def table(self, handle: int) -> list[int]:
        return self.pool.state.sequences.entries(slot_of(handle)).tolist()

    def column(self, name: str, handle: int) -> int:
        return self.pool.columns[f"slot.{name}"].get(slot_of(handle))

    def live(self) -> int:
        return int(np.count_nonzero(self.pool.state.sequences.state.flat != SequenceState.FREE))

    def columns(self) -> dict[str, list[bytes]]:
        """Everything the pool knows, to be compared. What lies in rows of unused slots means nothing."""
        columns, live = self.pool.columns, self.pool.state.sequences
        known = {c.spec.name: [c.flat.tobytes()] for c in columns.ordered if c.spec.name not in WIDE}
        return known | {name: [columns[name].row(slot).tobytes() for slot in live.live()] for name in WIDE}

    def assert_unchanged(self, before: dict[str, list[bytes]]) -> None:
        for name, now in self.columns().items():
            assert now == before[name], name
        self.verify()


class Talker:
    """One executor's side: numbers its messages and its steps."""

    uuids = 0

    def __init__(self, talk: Talk, name: str) -> None:
        self.talk, self.name = talk, name
        self.epoch = talk.pool.register(name, self.uuid(), [1])
        self.number = 0
        self.step = 0
        self.tickets: list[Ticket] = []
        """Ordered and not reported done."""

    @classmethod
    def uuid(cls) -> bytes:
        cls.uuids += 1
        return cls.uuids.to_bytes(16, "little")

    def message(self, **parts: Any) -> Message:
        return Message(self.epoch, self.number + 1, **parts)

    def send(self, message: Message | None = None, **parts: Any) -> Reply:
        message = message or self.message(**parts)
        data = self.talk.pool.exchange(message)
        self.number = message.number
        self.talk.verify()
        reply: Reply = pickle.loads(data)
        done = set(message.tickets_done.tolist())
        self.tickets = [ticket for ticket in (*self.tickets, *reply.tickets) if ticket.id not in done]
        return reply

    def copy_everything(self) -> None:
        """Report every copy done, those that are ordered in answer included."""
        self.send()
        while self.tickets:
            self.send(tickets_done=ints(*(ticket.id for ticket in self.tickets)))

    def admit(self, prompt: Sequence[int], **how: Any) -> Admitted:
        return self.admit_all([prompt], **how)[0]

    def admit_all(self, prompts: Sequence[Sequence[int]], **how: Any) -> list[Admitted]:
        return self.send(admissions=[self.admission(prompt, **how) for prompt in prompts]).admitted

    def admission(self, prompt: Sequence[int], **how: Any) -> Admission:
        uuid = how.pop("uuid", None) or self.uuid()
        return Admission(uuid, np.array(prompt, dtype=np.int32), **how)

    def launch(self, *to: tuple[int, int], **parts: Any) -> Reply:
        """Report one more step launched, which writes each handle's positions below the number given."""
        self.step += 1
        computed = [self.talk.column("computed", handle) for handle, _ in to]
        progress = Progress(ints(*(h for h, _ in to)), ints(*(p for _, p in to)), ints(*computed))
        return self.send(launched_step=self.step, progress=progress, **parts)

    def complete(self, *to: tuple[int, int], **parts: Any) -> Reply:
        """Report all launched steps completed, and each handle's positions below the number computed."""
        launched = [max(p, self.talk.column("launched", h)) for h, p in to]
        progress = Progress(ints(*(h for h, _ in to)), ints(*launched), ints(*(p for _, p in to)))
        return self.send(launched_step=self.step, completed_step=self.step, progress=progress, **parts)

    def run(self, *to: tuple[int, int], **parts: Any) -> Reply:
        """A step launched and completed."""
        self.launch(*to)
        return self.complete(*to, **parts)

    def append(self, handle: int, *tokens: int, start: int | None = None) -> Reply:
        at = self.talk.column("count", handle) if start is None else start
        return self.send(appends=Appends(ints(handle), ints(at), ints(len(tokens)), ints(*tokens)))

    def reserve(self, *to: tuple[int, int], look_ahead: int = 0) -> Reply:
        handles, lengths = ints(*(h for h, _ in to)), ints(*(n for _, n in to))
        return self.send(reservations=Reservations(handles, lengths, np.full(len(to), look_ahead)))

    def fork(self, handle: int, children: int) -> Forked:
        return self.send(forks=[Fork(handle, [Child(self.uuid()) for _ in range(children)])]).forked[0]

    def finish(self, *handles: int, **parts: Any) -> Reply:
        return self.send(finished=Finished(ints(*handles), [FinishReason.STOP] * len(handles)), **parts)

    def prefilled(self, prompt: Sequence[int], **how: Any) -> int:
        """Admit a prompt and compute all of it. Returns its handle."""
        admitted = self.admit(prompt, **how)
        assert admitted.refusal == Refusal.NONE, admitted
        self.run((admitted.handle, len(prompt)))
        return admitted.handle

    def cached(self, prompt: Sequence[int], **how: Any) -> None:
        """Leave a prompt's full blocks in the cache."""
        self.finish(self.prefilled(prompt, **how))
