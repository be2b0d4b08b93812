"""An engine that computes, behind a door: its tokenizer's pieces, and a prompt."""

from pathlib import Path

from pagehold.admin.v1 import sequence_pb2
from tests.engines.world import EngineWorld
from tests.scripted.tokenizers import FIRST_PIECE

PIECES = [f"w{number} " for number in range(40)]
KNOWN = FIRST_PIECE + len(PIECES)
"""Ids from here to the end of the model's vocabulary mean nothing."""

PROMPT = [FIRST_PIECE + number for number in range(21)]
MAX_RUNNING = 14


def start_engine(world: EngineWorld, model: Path, *arguments: str) -> None:
    """Start an engine whose steps take a while, and can be told to stand still."""
    world.start_engine(model, "--max-running", str(MAX_RUNNING), *arguments, faulty=True, SLOW="0.01")


def has_heard_of_cancel(world: EngineWorld) -> bool:
    """Whether the manager has been told to end the only request that there is."""
    sequences = world.admin.ListSequences(sequence_pb2.ListSequencesRequest(), timeout=60).sequences
    return not sequences or any(one.cancelled for one in sequences)
