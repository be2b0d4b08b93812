"""Running sequences, and what an executor says of them step by step."""

import time
import uuid
from collections.abc import Callable

import numpy as np

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import NONE, Admission, Appends, Finished, Message, Progress, Reply, Reservations
from blockmgr.core.states import FinishReason

GEOMETRY = PoolGeometry(
    tokens_per_block=16, block_bytes=4096, device_blocks=120_000, max_sequences=2048, max_length=4096
)
LOOK_AHEAD = 9
PROMPTS = (50, 500)

Exchange = Callable[[Message], Reply]


class Load:
    """Running sequences, and what an executor says of them step by step."""

    def __init__(self, sequences: int, exchange: Exchange) -> None:
        self._random = np.random.default_rng(sequences)
        self._exchange = exchange
        lengths = self._random.integers(*PROMPTS, size=sequences)
        handles = []
        for start in range(0, sequences, 64):
            asked = [self._admission(length) for length in lengths[start : start + 64].tolist()]
            handles += [one.handle for one in exchange(Message(0, 0, admissions=asked)).admitted]
        self.handles = np.array(handles, dtype=np.int64)
        self.lengths = lengths.astype(np.int64)
        self.room = -(-self.lengths // GEOMETRY.tokens_per_block) * GEOMETRY.tokens_per_block

    def _admission(self, length: int) -> Admission:
        prompt = self._random.integers(0, 50_000, size=length).astype(np.int32)
        return Admission(uuid=uuid.uuid4().bytes, prompt=prompt)

    def turn(self, step: int) -> Message:
        """The next step: what was computed, a token each, and room for the positions to come."""
        near = self.room - self.lengths <= LOOK_AHEAD
        ids = self._random.integers(0, 50_000, len(self.handles))
        message = Message(
            0,
            0,
            launched_step=step,
            completed_step=step,
            progress=Progress(self.handles, self.lengths.copy(), self.lengths.copy()),
            appends=Appends(self.handles, self.lengths.copy(), NONE, ids),
            reservations=Reservations(
                self.handles[near], self.lengths[near] + 1, np.full(int(near.sum()), LOOK_AHEAD, dtype=np.int64)
            ),
        )
        self.lengths += 1
        return message

    def take(self, reply: Reply) -> None:
        """Use what was given."""
        if reply.short or reply.stale:
            raise RuntimeError(f"{len(reply.short)} sequences are short and {len(reply.stale)} stale")
        for update in reply.tables:
            place = np.flatnonzero(self.handles == update.handle)
            self.room[place] = (update.first + len(update.blocks)) * GEOMETRY.tokens_per_block

    def end(self) -> None:
        """Finish all of them."""
        self._exchange(Message(0, 0, finished=Finished(self.handles, [FinishReason.LENGTH] * len(self.handles))))


def whole_turns(exchange: Exchange, sequences: int, rounds: int, step: int) -> tuple[list[float], int]:
    """Seconds of each turn, and the last step."""
    load, found = Load(sequences, exchange), []
    for _ in range(rounds):
        step += 1
        message = load.turn(step)
        began = time.perf_counter()
        reply = exchange(message)
        found.append(time.perf_counter() - began)
        load.take(reply)
    load.end()
    return found, step
