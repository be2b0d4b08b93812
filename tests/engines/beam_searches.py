"""Beam searches as tests ask engines for them, and as transformers answers them."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers

from executor.found_outputs import found_uuids
from pagehold.engine.v1 import request_pb2, submit_pb2
from tests.engines.door import Door, start_of
from tests.models.beam_search import Found, reference_beams
from tests.scripted.processes import wait_until

WIDTH = 4
OFF, ON, NEVER = (
    request_pb2.EARLY_STOPPING_OFF,
    request_pb2.EARLY_STOPPING_ON,
    request_pb2.EARLY_STOPPING_NEVER,
)
STOPPING: dict[int, bool | str] = {OFF: False, ON: True, NEVER: "never"}


@cache
def reference(folder: Path) -> Any:
    """transformers' own model."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").float().eval()


class Search:
    """A beam search as it is asked for here, and as transformers answers it."""

    def __init__(self, prompt: list[int], max_tokens: int, **rules: Any) -> None:
        self.prompt, self.max_tokens = prompt, max_tokens
        self.width: int = rules.pop("width", WIDTH)
        self.penalty: float = rules.pop("length_penalty", 1.0)
        self.stopping: Any = rules.pop("early_stopping", OFF)
        self.end_ids: list[int] = rules.pop("end_ids", [])
        self.parameters = rules
        beams = request_pb2.BeamSearch(length_penalty=self.penalty, early_stopping=self.stopping)
        kept = request_pb2.Request(outputs=self.width, beams=beams)
        self.start: submit_pb2.Start = start_of(
            prompt, request=kept, max_tokens=max_tokens, end_ids=self.end_ids, **self.parameters
        )

    def expected(self, model: Path) -> Found:
        return reference_beams(
            reference(model), self.prompt, self.width, self.max_tokens,
            length_penalty=self.penalty, early_stopping=STOPPING[self.stopping], end_ids=self.end_ids,
            min_tokens=self.parameters.get("min_tokens", 0),
        )  # fmt: skip

    def found(self, door: Door, seconds: float = 120.0) -> Found:
        """What the engine has found, once it has ended; if that was just before an engine died, the next one says so."""
        key = self.start.uuid
        wait_until(lambda: key in door.ended or key in door.refused, f"search {key.hex()} ends", seconds)
        found = [door.lookup(key).finished for key in found_uuids(self.start.uuid, self.start.request)]
        return [(list(one.ids[one.prompt : one.final_length]), one.score) for one in found]

    def check(self, door: Door, model: Path, seconds: float = 120.0) -> Found:
        found, expected = self.found(door, seconds), self.expected(model)
        assert [ids for ids, _ in found] == [ids for ids, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-4)
        return found


def ends_for(model: Path, prompt: list[int], step: int) -> list[int]:
    """Ids that beams have in this step of a search without ends: as ends of another search they come early."""
    found = reference_beams(reference(model), prompt, WIDTH, step + 2)
    return sorted({output[step] for output, _ in found})[:2]
