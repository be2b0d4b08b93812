"""Conditions on blocks, as they are typed behind --filter."""

import re
from typing import TYPE_CHECKING, Any

import typer

from pagehold.client.commands.arguments import enum_value, sequence_key, tier_of

if TYPE_CHECKING:
    from pagehold.admin.v1.block_pb2 import BlockFilter
    from pagehold.client.admin import AdminClient

KEYS = "state, tier, sequence, refs, pinned, indexed, hash"
TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


async def block_filter(client: "AdminClient", conditions: list[str]) -> "BlockFilter":
    """All conditions as one filter. A sequence given by its UUID is looked up for its handle."""
    from pagehold.admin.v1.block_pb2 import BlockFilter

    wanted = BlockFilter()
    seen: set[str] = set()
    for condition in conditions:
        match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|=)\s*(.*?)\s*", condition)
        if match is None:
            raise typer.BadParameter(f"{condition!r} is no condition: write KEY=VALUE; keys are {KEYS}")
        key, sign, value = match.groups()
        if sign != "=" and key != "refs":
            raise typer.BadParameter(f"{condition!r}: {sign} is for refs only")
        if key in seen and key != "refs":
            raise typer.BadParameter(f"{condition!r}: {key} is given already")
        seen.add(key)
        if key == "sequence":
            wanted.handle = await _handle(client, value)
        else:
            _add(wanted, key, sign, value)
    return wanted


async def _handle(client: "AdminClient", text: str) -> int:
    key = sequence_key(text)
    if "handle" in key:
        return int(key["handle"])
    answer = await client.get_sequence(**key)
    if answer.WhichOneof("found") != "live":
        raise typer.BadParameter(f"sequence {text} has ended and holds no blocks")
    return answer.live.handle


def _add(wanted: "BlockFilter", key: str, sign: str, value: str) -> None:
    from pagehold.common.v1 import states_pb2

    if key == "state":
        wanted.states.extend(enum_value(states_pb2.BlockState, word.strip()) for word in value.split(","))
    elif key == "tier":
        wanted.tier = tier_of(value)
    elif key == "hash":
        wanted.hash_prefix = value
    elif key in ("pinned", "indexed"):
        if value.lower() not in TRUTHS:
            raise typer.BadParameter(f"{key}={value}: must be yes or no")
        setattr(wanted, key, TRUTHS[value.lower()])
    elif key == "refs":
        _add_references(wanted, sign, value)
    else:
        raise typer.BadParameter(f"there is no condition {key!r}; keys are {KEYS}")


def _add_references(wanted: Any, sign: str, value: str) -> None:
    if not (value.isascii() and value.isdecimal()):
        raise typer.BadParameter(f"refs{sign}{value}: must be a number")
    if sign in ("=", ">="):
        wanted.min_references = int(value)
    if sign in ("=", "<="):
        wanted.max_references = int(value)
