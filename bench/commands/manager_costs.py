"""What the block manager costs."""

import os
from enum import StrEnum
from typing import Annotated, Any

import typer

from bench.commands.options import AsJson, Sizes


class Part(StrEnum):
    """What can be measured."""

    TURNS = "turns"
    CODEC = "codec"
    LEDGER = "ledger"
    ALLOCATOR = "allocator"


def manager(
    part: Annotated[
        list[Part] | None, typer.Option("--part", help="Measure only this; may be repeated.", show_default=False)
    ] = None,
    sizes: Sizes = "1,64,256,1024",
    rounds: Annotated[int, typer.Option("--rounds", min=20, help="Turns of each number of sequences.")] = 1000,
    cores: Annotated[
        str | None,
        typer.Option("--cores", metavar="EXECUTOR,MANAGER", help="Keep the two processes of a turn each to a core."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure the block manager: turns of a session, what carries them, the ledger, the allocator alone.

    Needs no server and no GPU: it starts a manager of its own. The parts of a turn are processor time, all else is time.
    """
    from rich.console import RenderableType

    from pagehold.client.output import print_json, show

    wanted, numbers, kept_to = part or list(Part), _sizes(sizes), _cores(cores)
    measured: dict[str, Any] = {}
    shown: list[RenderableType] = []
    for name in wanted:
        measured[name.value], drawn = _measure(name, numbers, rounds, kept_to)
        shown += [drawn, ""]
    if json:
        return print_json(measured)
    return show(*shown[:-1])


def _sizes(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and 1 <= int(part) <= 1024 for part in parts):
        raise typer.BadParameter(f"--sizes is {text!r}: numbers from 1 to 1024, with commas between")
    return [int(part) for part in parts]


def _cores(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    here = os.sched_getaffinity(0)
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) in here for part in parts):
        raise typer.BadParameter(f"--cores is {text!r}: two of the cores {sorted(here)}, with a comma between")
    return int(parts[0]), int(parts[1])


def _measure(part: Part, sizes: list[int], rounds: int, cores: tuple[int, int] | None) -> tuple[Any, Any]:
    """The figures of one part, and their table."""
    from bench.manager import allocator, codec, commits, report, turns

    if part is Part.TURNS:
        of_turns = turns.measure(sizes, rounds, cores)
        return of_turns, report.turns_table(of_turns)
    if part is Part.CODEC:
        of_codec = {size: codec.measure(size) for size in sizes}
        return of_codec, report.codec_table(of_codec)
    if part is Part.LEDGER:
        of_commits, read = {size: commits.measure(size) for size in sizes}, commits.measure_reader()
        return {"commit": of_commits, "read": read}, report.commits_table(of_commits, read)
    allocator.measure(allocator.SIZES[0])  # Once to warm up.
    alone = [allocator.measure(blocks) for blocks in allocator.SIZES]
    with_ledger = [allocator.measure_with_ledger(blocks) for blocks in allocator.SIZES]
    return {"alone": alone, "with_ledger": with_ledger}, report.allocator_table(alone, with_ledger)
