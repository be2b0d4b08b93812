"""Manager, executors, devices and everything between them in one process, one small act at a time, in random order.

The allocator and its ledger are the real ones, and so is the engine; what carries messages loses them, and what runs
them dies. A seed gives the same course of events again.
"""

import os
import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import numpy as np

from blockmgr.core.errors import StaleEpoch
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Message, Reply
from blockmgr.core.pool import Pool
from blockmgr.core.verify import verify
from blockmgr.ledger import LedgerReader, PoolLedger, RedoLog
from blockmgr.service.codec import decode_reply, decode_turn, encode_reply, encode_turn
from executor.manager import Revoked
from pagehold.blockmgr.v1 import sequence_pb2, turn_pb2
from tests.scripted.commands import Copy, Done, Forget, Launched, Poison, Step
from tests.scripted.delivery import Delivery
from tests.scripted.device import FakeDevice
from tests.scripted.engine import Engine, Settings
from tests.scripted.points import Points
from tests.scripted.toy_model import VECTOR_BYTES
from tests.scripted.workload import Request

TOKENS_PER_BLOCK = 4
GEOMETRY = PoolGeometry(
    tokens_per_block=TOKENS_PER_BLOCK,
    block_bytes=TOKENS_PER_BLOCK * VECTOR_BYTES,
    device_blocks=160,
    host_blocks=64,
    max_sequences=48,
    max_length=128,
    max_executors=4,
    request_bytes=1024,
)
CONTENT = bytes(range(16))


class Killed(BaseException):
    """The engine's process is gone, wherever it was."""


class Clock:
    """A clock that goes on by a millisecond with every act."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Manager:
    """The pool over its ledger. ``die`` takes away all but the shared memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.redo = RedoLog.create()
        self.ledger = PoolLedger.create("model", GEOMETRY, self.redo)
        self.pool = Pool(GEOMETRY, self.ledger, now=clock, encode=self._encode)
        self.pool.relabel(CONTENT)
        self.deaths = 0

    @staticmethod
    def _encode(reply: Reply) -> bytes:
        return encode_reply(reply, 1)

    def die(self) -> None:
        """Die, and be started again on the same memory."""
        descriptor = os.dup(self.ledger.descriptor)
        self.ledger.close()
        self.ledger = PoolLedger.adopt(descriptor, self.redo)
        self.pool = Pool(GEOMETRY, self.ledger, fresh=False, now=self._clock, encode=self._encode)
        self.deaths += 1

    def close(self) -> None:
        """Let go of the memory."""
        self.ledger.close()
        self.redo.close()


class Memory:
    """The bytes of both tiers, as a device sees them mapped."""

    def __init__(self) -> None:
        self.block_bytes = GEOMETRY.block_bytes
        self.device = SimpleNamespace(array=np.zeros(GEOMETRY.device_blocks * GEOMETRY.block_bytes, dtype=np.uint8))
        self._host = np.zeros(GEOMETRY.host_blocks * GEOMETRY.block_bytes, dtype=np.uint8)

    def block(self, number: int, host: bool = False) -> Any:
        """One block."""
        memory = self._host if host else self.device.array
        return memory[number * self.block_bytes : (number + 1) * self.block_bytes]


class Stream:
    """A device's stream: what an engine launches waits here until the world executes it."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._launched: deque[Launched] = deque()
        self._done: list[Done] = []
        self.serial = self.completed = 0

    def launch(self, command: Step | Copy | Poison | Forget) -> int:
        """Put a command on the stream."""
        self.serial += 1
        self._launched.append(Launched(self.serial, command))
        return self.serial

    def poison(self, blocks: list[int]) -> None:
        """Spoil blocks that were handed out anew."""
        if blocks:
            self.launch(Poison(blocks))

    def completions(self, timeout: float) -> list[Done]:
        """What has completed."""
        done, self._done = self._done, []
        if done:
            self.completed = done[-1].serial
        return done

    def execute(self) -> bool:
        """Execute the next command. Returns whether there was one."""
        if not self._launched:
            return False
        self._done.append(self._device.execute(self._launched.popleft()))
        return True


class Wire:
    """An executor's session: one turn under way, which may be lost on either way and is then sent again."""

    def __init__(self, manager: Manager, epoch: int, chance: random.Random) -> None:
        self._manager = manager
        self._epoch = epoch
        self._chance = chance
        self._number = 0
        self._turn: bytes | None = None
        self._reply: Reply | None = None
        self.turn_wanted = SimpleNamespace(is_set=self._is_turn_wanted)
        self.lost = 0

    def _is_turn_wanted(self) -> bool:
        """A manager that was restarted asks every executor for word of what is launched."""
        state = self._manager.pool.state
        return state.executors.find(self._epoch) in state.blocks.fences.unheard

    def submit(self, message: Message) -> int:
        """Send a turn."""
        self._number += 1
        message.epoch, message.number = self._epoch, self._number
        self._turn = encode_turn(message).SerializeToString()
        return self._number

    def reply(self) -> Reply | None:
        """The reply, if it has come."""
        reply, self._reply = self._reply, None
        return reply

    def carry(self, loss: float) -> None:
        """Let the turn that is under way arrive and be answered, unless one or the other is lost."""
        if self._turn is None:
            return
        if self._chance.random() < loss:
            self.lost += 1
            return
        data = self.hand_over(self._turn)
        if self._chance.random() < loss:
            self.lost += 1
            return
        self._turn, self._reply = None, decode_reply(data)

    def hand_over(self, turn: bytes) -> bytes:
        """The manager handles a turn. Raises ``Revoked`` to whoever sent it under a stale epoch."""
        try:
            return self._manager.pool.exchange(decode_turn(turn_pb2.Turn.FromString(turn)))
        except StaleEpoch as error:
            raise Revoked(str(error)) from error


class Unknown(grpc.RpcError):
    """No such sequence."""

    def code(self) -> grpc.StatusCode:
        """NOT_FOUND."""
        return grpc.StatusCode.NOT_FOUND


class DeadlyPoints(Points):
    """Every named point is a place to die at, once everything adopted has made progress."""

    def __init__(self, life: "Life") -> None:
        super().__init__([])
        self._life = life

    def reach(self, name: str) -> None:
        """Die here, if it is to be."""
        if self._life.is_doomed and self.armed:
            raise Killed


class Life:
    """One life of an executor: its registration, its engine, its device."""

    def __init__(self, world: "World", name: str, requests: list[Request]) -> None:
        self._world = world
        self.name = name
        self.requests = requests
        self.is_doomed = False
        self.epoch = world.manager.pool.register(name, world.chance.randbytes(16), [1])
        self.wire = Wire(world.manager, self.epoch, world.chance)
        self.stream = Stream(FakeDevice(cast(Any, world.memory), world.violations.append))
        self._reader = LedgerReader(os.dup(world.manager.ledger.descriptor))
        points = DeadlyPoints(self)
        delivery = Delivery(world.folder / name)
        settings = Settings(chunk=5, depth=2, look_ahead=6, max_running=10)
        self.engine = Engine(
            cast(Any, self._registration()), cast(Any, self.stream), delivery, settings, points, world.clock
        )
        self.engine.begin(requests, [])

    def _registration(self) -> SimpleNamespace:
        """What an engine uses of its registration."""
        pool = self._world.manager.pool

        def adopt(_: list[str]) -> list[Any]:
            return self._world.manager.pool.adopt(self.epoch)

        return SimpleNamespace(
            response=SimpleNamespace(
                pool=SimpleNamespace(
                    name="model",
                    geometry=SimpleNamespace(
                        tokens_per_block=pool.geometry.tokens_per_block,
                        host_blocks=pool.geometry.host_blocks,
                        device_blocks=pool.geometry.device_blocks,
                    ),
                )
            ),
            mapping=SimpleNamespace(ledger=self._reader),
            heartbeat=SimpleNamespace(revoked=SimpleNamespace(is_set=lambda: False)),
            stub=SimpleNamespace(LookupSequence=self._look_up),
            open_session=lambda: self.wire,
            adopt=adopt,
            ready=lambda: self._world.manager.pool.ready(self.epoch),
        )

    def _look_up(self, question: Any, wait_for_ready: bool) -> Any:
        state = self._world.manager.pool.state
        if question.uuid in state.sequences.by_uuid:
            return sequence_pb2.LookupSequenceResponse(live=sequence_pb2.LiveSequence())
        record = state.archive.find(question.uuid)
        if record is None:
            raise Unknown
        finished = sequence_pb2.FinishedSequence(
            prompt=record.prompt, ids=record.tokens.tolist(), reason=cast(Any, int(record.reason))
        )
        return sequence_pb2.LookupSequenceResponse(finished=finished)

    def end(self) -> None:
        """The engine is dead; its device goes on for a while, and stops. Only then is the executor proven dead."""
        for _ in range(self._world.chance.randrange(6)):
            self.stream.execute()
        self._world.manager.pool.fence(self.epoch, "killed")
        self._world.manager.pool.bury(self.epoch)
        self._reader.close()

    def leave(self) -> None:
        """Everything is done."""
        self._reader.close()


class World:
    """Acts at random until all requests of all executors are delivered."""

    def __init__(self, seed: int, folder: Path, loads: dict[str, list[Request]]) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.clock = Clock()
        self.violations: list[str] = []
        self.memory = Memory()
        self.manager = Manager(self.clock)
        self.deaths = 0
        self.lost = 0
        self.lives = {name: Life(self, name, requests) for name, requests in loads.items()}

    def run(self, acts: int, loss: float, manager_deaths: float, deaths: float) -> None:
        """Act until everything is delivered. Raises ``AssertionError`` if that takes more acts than given."""
        for number in range(acts):
            heard = not self.manager.pool.state.blocks.fences.unheard
            if heard and all(life.engine.is_settled() for life in self.lives.values()):
                return
            self.clock.now += 0.001
            self._act(self.chance.choice(list(self.lives.values())), loss, manager_deaths, deaths)
            if number % 50 == 0:
                assert list(self.contradictions()) == []
        described = {name: life.engine.describe() for name, life in self.lives.items()}
        raise AssertionError(f"not done after {acts} acts: {described}")

    def _act(self, life: Life, loss: float, manager_deaths: float, deaths: float) -> None:
        if self.chance.random() < manager_deaths:
            self.manager.die()
        if self.chance.random() < deaths:
            life.is_doomed = True
        act = self.chance.choices(("engine", "device", "wire"), weights=(3, 3, 2))[0]
        try:
            if act == "engine":
                life.engine.advance()
            elif act == "device":
                life.stream.execute()
            else:
                life.wire.carry(loss)
        except Killed:
            self._replace(life)

    def _replace(self, life: Life) -> None:
        self.deaths += 1
        self.lost += life.wire.lost
        life.end()
        self.lives[life.name] = Life(self, life.name, life.requests)

    def contradictions(self) -> Iterator[str]:
        """What is wrong with memory or state."""
        yield from self.violations
        yield from (str(violation) for violation in verify(self.manager.pool.snapshot()))

    def close(self) -> None:
        """Let go of everything."""
        self.lost += sum(life.wire.lost for life in self.lives.values())
        for life in self.lives.values():
            life.leave()
        self.manager.close()
