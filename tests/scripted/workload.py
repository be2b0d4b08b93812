"""What scripted executors are asked to generate, and what has to come out."""

import json
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tests.scripted import toy_model

Kind = Literal["plain", "stop", "samples", "beams"]


@dataclass(frozen=True)
class Request:
    """One prompt and how it goes on. ``target`` is the length at which it ends, prompt included.

    ``plain`` ends by count, which is known ahead. ``stop`` ends where nobody expects it, with steps in flight.
    ``samples`` and ``beams`` have ``width`` sequences each, all but the first made by forking; those have a ``parent``.
    """

    uuid: str
    prompt: tuple[int, ...]
    target: int
    seed: int = 1
    kind: Kind = "plain"
    width: int = 1
    salt: str = ""
    parent: str = ""
    swaps: bool = False
    """Goes to the host tier and back once, half-way."""
    kills: bool = False
    """Kills the executor that computes its first output."""

    @property
    def key(self) -> bytes:
        """The UUID's 16 bytes."""
        return bytes.fromhex(self.uuid)

    @property
    def group(self) -> str:
        """UUID of the request that this sequence was forked from, or its own."""
        return self.parent or self.uuid

    def children(self) -> list["Request"]:
        """What is to be forked from it. Their UUIDs follow from its own, so a fork may be asked for again."""
        if self.parent:
            return []
        return [
            replace(
                self,
                uuid=uuid.uuid5(uuid.UUID(self.uuid), str(place)).hex,
                parent=self.uuid,
                seed=self.seed + place if self.kind == "samples" else self.seed,
            )
            for place in range(1, self.width)
        ]

    def to_bytes(self) -> bytes:
        """For the ledger: all but the prompt, which stands there anyway."""
        return json.dumps(asdict(replace(self, prompt=()))).encode()

    @classmethod
    def from_bytes(cls, data: bytes, prompt: Sequence[int]) -> "Request":
        """What a predecessor stored in the ledger."""
        return cls(**json.loads(data) | {"prompt": tuple(prompt)})

    def expected(self) -> dict[str, list[int]]:
        """The output of each sequence, by UUID."""
        count = self.target - len(self.prompt)
        family = [self, *self.children()]
        if self.kind == "beams":
            outputs = toy_model.beams(self.prompt, count, self.seed, self.width, self.salt)
            return {one.uuid: output for one, output in zip(family, outputs, strict=True)}
        return {one.uuid: toy_model.continuation(one.prompt, count, one.seed, one.salt) for one in family}


WEIGHTS: dict[Kind, int] = {"plain": 5, "stop": 3, "samples": 1, "beams": 1}


def mixed(
    seed: int,
    count: int,
    *,
    longest: int = 40,
    outputs: tuple[int, int] = (6, 30),
    kinds: dict[Kind, int] | None = None,
) -> list[Request]:
    """A random mixture of kinds, half of it with prompts that begin alike."""
    return list(_mixed(random.Random(seed), count, longest, outputs, kinds or WEIGHTS))


def _mixed(
    chance: random.Random, count: int, longest: int, outputs: tuple[int, int], kinds: dict[Kind, int]
) -> Iterator[Request]:
    prefixes = [[chance.randrange(toy_model.VOCABULARY) for _ in range(longest // 2)] for _ in range(3)]
    for _ in range(count):
        prompt = [chance.randrange(toy_model.VOCABULARY) for _ in range(chance.randint(1, longest // 2))]
        if chance.random() < 0.5:
            prompt = chance.choice(prefixes) + prompt
        kind = chance.choices(list(kinds), weights=list(kinds.values()))[0]
        yield Request(
            uuid=uuid.UUID(int=chance.getrandbits(128)).hex,
            prompt=tuple(prompt),
            target=len(prompt) + chance.randint(*outputs),
            seed=chance.getrandbits(32),
            kind=kind,
            width=chance.randint(2, 4) if kind in ("samples", "beams") else 1,
            salt=chance.choice(("", "", "", "pepper")),
            swaps=kind in ("plain", "stop") and chance.random() < 0.3,
        )


def plain(seed: int, count: int, prompt: int, output: int, **more: Any) -> list[Request]:
    """Requests of one size that share nothing."""
    chance = random.Random(seed)
    return [
        Request(
            uuid=uuid.UUID(int=chance.getrandbits(128)).hex,
            prompt=tuple(chance.randrange(toy_model.VOCABULARY) for _ in range(prompt)),
            target=prompt + output,
            seed=chance.getrandbits(32),
            **more,
        )
        for _ in range(count)
    ]
