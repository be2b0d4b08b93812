"""A front door before a scripted engine, with answers made of known pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from blockmgr.core.states import FinishReason
from pagehold.engine.v1 import submit_pb2
from pagehold.inference.v1 import requests_pb2, server_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import DoorProcess
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.processes import wait_until
from tests.scripted.tokenizers import EOS, FIRST_PIECE
from tests.scripted.world import World

PIECES = ["DEF", "G", "HI", "J", "The quick br", "own", " fox", "...Mars?", "ple", "as", "hello", "user"]
PIECES += [f"w{number} " for number in range(100)]
IDS = {piece: FIRST_PIECE + place for place, piece in enumerate(PIECES)}
PATIENT: dict[str, Any] = {
    "lease_seconds": 60,
    "probe_seconds": 60,
    "adoption_seconds": 300,
    "finished_seconds": 600,
}
"""A manager that takes no process for dead and gives nothing up, however busy the machine is."""

UNKNOWN = 60_000
"""An id that the model computes and the tokenizer does not know."""


def ids(*pieces: str) -> list[int]:
    """Ids of pieces."""
    return [IDS[piece] for piece in pieces]


def words(count: int) -> list[int]:
    """Ids of so many pieces, each another one for a while."""
    return [IDS[f"w{number % 100} "] for number in range(count)]


def echo(start: submit_pb2.Start) -> Answer:
    """As many words as may be."""
    return Answer(words(start.request.parameters.max_tokens))


def says(*pieces: str, end: FinishReason | None = FinishReason.LENGTH) -> Callable[[submit_pb2.Start], Answer]:
    """These pieces, whatever is asked; an end of sequence behind them where the reason is a stop."""
    tokens = ids(*pieces) + ([EOS] if end == FinishReason.STOP else [])
    return lambda _: Answer(tokens, end)


_numbers = count(1)


@dataclass
class Scene:
    """What a test has."""

    world: World
    engine: ScriptedEngine
    door: DoorProcess

    def in_flight(self) -> int:
        """Requests of the door in flight."""
        return int(self._load().in_flight)

    def await_heard(self) -> None:
        """Wait until the door has heard all that this engine has said so far."""
        self.engine.free_blocks = number = next(_numbers)
        wait_until(lambda: self._load().free_blocks == number, "the door has heard of all that was said")

    def _load(self) -> server_pb2.GetLoadResponse:
        return self.door.stub.GetLoad(server_pb2.GetLoadRequest(), timeout=60)

    def await_idle(self) -> None:
        """Wait until nothing is left of any request: not at the door, not at the engine, not in the pool."""
        wait_until(lambda: self.in_flight() == 0, "no request is in flight at the door")
        wait_until(lambda: not self.listed(), "no request is in the engine")
        wait_until(lambda: self.world.statistics().sequences.live == 0, "no sequence lives")

    def listed(self) -> list[requests_pb2.RequestSummary]:
        """Requests in flight."""
        return list(self.door.stub.ListRequests(requests_pb2.ListRequestsRequest(), timeout=60).requests)
