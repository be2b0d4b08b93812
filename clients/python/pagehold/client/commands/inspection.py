"""One sequence, one block: everything that is known."""

from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.options import ADDRESS, TIMEOUT, Address, Json, Pool, Timeout, call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pagehold.admin.v1 import block_pb2, sequence_pb2
    from pagehold.client.admin import AdminClient

CELLS = 8
"""Characters in which a block's positions are drawn."""


def sequence(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Its handle, or the UUID of its request.")],
    ids: Annotated[bool, typer.Option("--ids", help="Show its token ids too.")] = False,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Show one sequence and its block table."""
    from pagehold.client.commands.arguments import sequence_key
    from pagehold.client.output import print_json, show

    key = sequence_key(id_)

    async def work(client: "AdminClient") -> "sequence_pb2.GetSequenceResponse":
        return await client.get_sequence(**key, with_ids=ids)

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    if answer.WhichOneof("found") == "finished":
        show(_finished(answer.finished))
    else:
        show(_live(answer.live), "", drawn_table(answer), *_tickets(answer))
    if ids:
        typer.echo(f"\n{' '.join(map(str, answer.ids))}")
    return None


def _live(one: "sequence_pb2.Sequence") -> "RenderableType":
    from pagehold.client.output import ago, facts, name_of

    flags = [word for word, on in (("asked to end", one.cancelled), ("takes no cached blocks", one.bypass_cache),
                                   ("leaves no blocks to others", one.no_store)) if on]  # fmt: skip
    return facts(
        [
            ("sequence", f"{one.handle}  (slot {one.slot})"),
            ("uuid", one.uuid),
            ("state", f"{name_of(one, 'state')}, blocks: {name_of(one, 'residency')}"),
            ("executor", f"{one.executor} (epoch {one.executor_epoch})"),
            ("tokens", f"{one.tokens} recorded: {one.prompt} of prompt, {one.tokens - one.prompt} of output"),
            ("computed", f"{one.computed} positions; {one.launched} launched"),
            ("ends at", f"{one.final_length} tokens" if one.HasField("final_length") else None),
            ("blocks", f"{one.blocks}, {one.shared_blocks} of them shared"),
            ("family", f"forked from {one.family}" if one.family != one.handle else None),
            ("score", one.score or None),
            ("priority", one.priority or None),
            ("deaths", f"{one.deaths} without progress" if one.deaths else None),
            ("marks", ", ".join(flags) or None),
            ("admitted", ago(one.created)),
        ]
    )


def _finished(one: "sequence_pb2.FinishedRequest") -> "RenderableType":
    from pagehold.client.output import ago, facts, name_of

    return facts(
        [
            ("uuid", one.uuid),
            ("state", f"finished: {name_of(one, 'reason')}"),
            ("tokens", f"{one.tokens} recorded: {one.prompt} of prompt, {one.tokens - one.prompt} of output"),
            ("counting", one.final_length if one.final_length != one.tokens else None),
            ("score", one.score or None),
            ("admitted", ago(one.created)),
            ("ended", ago(one.finished)),
        ]
    )


def drawn_table(answer: "sequence_pb2.GetSequenceResponse") -> "RenderableType":
    """A sequence's block table, an entry in a line."""
    from pagehold.admin.v1.block_pb2 import BlockId
    from pagehold.client.commands.wording import block_name
    from pagehold.client.output import Column, name_of, table

    size = max((entry.tokens for entry in answer.table), default=1)
    first = 0
    columns = [
        *(Column("entry", right=True), Column("block", right=True), Column("state"), Column("refs", right=True)),
        *(Column("positions"), Column("tokens", from_width=60), Column("hash", from_width=100)),
    ]
    rows: list[tuple[object, ...]] = []
    for index, entry in enumerate(answer.table):
        tokens = f"{first}-{first + entry.tokens - 1}" if entry.tokens else "reserved ahead"
        first += entry.tokens
        name = block_name(BlockId(tier=entry.tier, block=entry.block))
        bar = _bar(entry.computed, entry.tokens, size)
        rows.append((index, name, name_of(entry, "state"), entry.references, bar, tokens, entry.hash))
    return table(columns, rows, title="█ computed  ▒ recorded, not computed  · empty")


def _bar(computed: int, recorded: int, size: int) -> str:
    """A block's positions from left to right. What is begun shows, however little it is."""
    full = -(-computed * CELLS // size)
    begun = max(full, -(-max(computed, recorded) * CELLS // size))
    return "█" * full + "▒" * (begun - full) + "·" * (CELLS - begun)


def _tickets(answer: "sequence_pb2.GetSequenceResponse") -> list[str]:
    from pagehold.client.commands.wording import ticket_words

    lines = [f"  entry {ticket.index}: {ticket_words(ticket)}" for ticket in answer.tickets]
    return ["\ncopies pending", *lines] if lines else []


def block(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Its number: 17, or host:17 on the host tier.")],
    events: Annotated[int, typer.Option("--events", min=0, max=1000, help="Show at most so many of its events.")] = 16,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Show one block, everything that holds it, and what happened to it last."""
    from pagehold.client.commands.arguments import block_of
    from pagehold.client.commands.events import event_line
    from pagehold.client.commands.wording import holder_words
    from pagehold.client.output import Column, print_json, show, table

    name = block_of(id_)
    answer = call(lambda client: client.get_block(name, events), address, pool, timeout)
    if json:
        return print_json(answer)
    show(_block_facts(answer), "")
    if answer.holders:
        show(table([Column("held by"), Column("which")], map(holder_words, answer.holders)))
    else:
        typer.echo("Nothing holds it.")
    if answer.events:
        typer.echo("\nlast events")
        for event in answer.events:
            typer.echo(f"  {event_line(event)}")
    return None


def _block_facts(answer: "block_pb2.GetBlockResponse") -> "RenderableType":
    from pagehold.client.commands.wording import block_name
    from pagehold.client.output import ago, facts, name_of

    one = answer.block
    filling = f", filled by step {one.filling_step} of {one.filling_executor}" if one.HasField("filling_step") else ""
    marks = [word for word in ("indexed", "pinned", "fenced") if getattr(one, word)]
    return facts(
        [
            ("block", block_name(one.id)),
            ("state", name_of(one, "state") + filling),
            ("references", one.references),
            ("marks", ", ".join(marks) or None),
            ("generation", one.generation),
            ("last use", ago(one.last_use / 1e6) if one.last_use and not one.references else None),
            ("hash", one.hash or None),
            ("parent", one.parent or None),
            ("token ids", " ".join(map(str, answer.ids)) or None),
        ]
    )
