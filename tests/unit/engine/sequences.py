"""Requests and sequences for tests of what needs no manager."""

import uuid
from typing import Any

import numpy as np

from blockmgr.core.geometry import handle_of
from executor.engine.request import Limits, Request
from executor.engine.sequence import Sequence
from pagehold.engine.v1 import request_pb2

BLOCK = 16
LIMITS = Limits(max_length=1000, vocabulary=100, usable_blocks=20, tokens_per_block=BLOCK)


def request(prompt: int = 10, max_tokens: int = 10, *, priority: int = 0, **parameters: Any) -> Request:
    """A request for a prompt of so many tokens."""
    kept = request_pb2.Request(
        parameters=request_pb2.Parameters(max_tokens=max_tokens, top_p=1.0, **parameters), priority=priority
    )
    return Request(uuid.uuid4().bytes, np.arange(prompt, dtype=np.int32) % 50, kept)


def sequence(prompt: int = 10, max_tokens: int = 10, *, slot: int = 0, blocks: int = 20, **parameters: Any) -> Sequence:
    """A sequence that has just been admitted, with so many blocks."""
    asked = request(prompt, max_tokens, **parameters)
    made = Sequence(asked, handle_of(1, slot), asked.prompt.tolist(), recorded=prompt)
    made.update(0, list(range(1, blocks + 1)))
    return made


def decoding(slot: int = 0, prompt: int = 10, max_tokens: int = 10, **more: Any) -> Sequence:
    """A sequence whose prompt is computed, and that has sampled its first token."""
    made = sequence(prompt, max_tokens, slot=slot, **more)
    made.launch(prompt)
    made.complete(prompt, 7)
    return made
