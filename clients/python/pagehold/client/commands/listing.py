"""Executors, sequences and blocks, listed."""

from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.options import ADDRESS, TIMEOUT, Address, Json, Pool, Timeout, call

if TYPE_CHECKING:
    from pagehold.admin.v1 import block_pb2, executor_pb2, sequence_pb2
    from pagehold.client.admin import AdminClient

Limit = Annotated[int, typer.Option("--limit", min=1, help="List at most so many.")]


def executors(address: Address = ADDRESS, pool: Pool = None, timeout: Timeout = TIMEOUT, json: Json = False) -> None:
    """List the executors of a pool: who computes, how far, and on which lease."""
    from pagehold.client.output import Column, print_json, show, table

    answer = call(lambda client: client.list_executors(), address, pool, timeout)
    if json:
        return print_json(answer)
    if not answer.executors:
        return typer.echo("No executor is registered.")
    columns = [
        *(Column("executor"), Column("state"), Column("epoch", right=True), Column("sequences", right=True)),
        *(Column("blocks", right=True), Column("step", right=True), Column("lease", right=True, from_width=72)),
        *(Column("processes", from_width=100), Column("registered", right=True, from_width=120)),
    ]
    return show(table(columns, [_executor_row(one) for one in answer.executors]))


def _executor_row(one: "executor_pb2.Executor") -> tuple[object, ...]:
    from pagehold.client.output import ago, name_of, span

    state = name_of(one, "state") + (", draining" if one.draining else "") + (", solo" if one.HasField("solo") else "")
    step = (
        f"{one.completed_step}"
        if one.launched_step == one.completed_step
        else f"{one.completed_step}/{one.launched_step}"
    )
    lease = span(one.lease_seconds_left) if one.HasField("lease_seconds_left") else "-"
    alive = [
        f"{process.pid}{f' {process.role}' if process.role else ''}" for process in one.processes if not process.dead
    ]
    dead = len(one.processes) - len(alive)
    processes = ", ".join(alive + ([f"{dead} dead"] if dead else []))
    return one.name, state, one.epoch, one.sequences, one.blocks, step, lease, processes, ago(one.registered)


def sequences(
    executor: Annotated[str | None, typer.Option("--executor", help="Only those of this executor.")] = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="Only these: live, orphaned.")] = None,
    residency: Annotated[
        list[str] | None, typer.Option("--residency", help="Only these: device, leaving, host, returning, released.")
    ] = None,
    limit: Limit = 100,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """List the sequences that live in a pool."""
    from pagehold.client.commands.arguments import enum_value
    from pagehold.client.output import Column, print_json, show, table
    from pagehold.common.v1 import states_pb2

    states = [enum_value(states_pb2.SequenceState, word) for word in state or ()]
    residencies = [enum_value(states_pb2.Residency, word) for word in residency or ()]

    async def work(client: "AdminClient") -> "sequence_pb2.ListSequencesResponse":
        return await client.list_sequences(limit=limit, executor=executor, states=states, residencies=residencies)

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    columns = [
        *(Column("handle", right=True), Column("uuid", from_width=132), Column("state"), Column("executor")),
        *(Column("prompt", right=True), Column("tokens", right=True), Column("computed", right=True)),
        *(Column("blocks", right=True), Column("shared", right=True), Column("age", right=True, from_width=90)),
        *(Column("priority", right=True, from_width=110), Column("deaths", right=True, from_width=150)),
    ]
    if answer.sequences:
        show(table(columns, [_sequence_row(one) for one in answer.sequences]))
    return _say_rest(len(answer.sequences), answer.total, "sequences")


def _sequence_row(one: "sequence_pb2.Sequence") -> tuple[object, ...]:
    import time

    from pagehold.client.output import name_of, span

    residency = name_of(one, "residency")
    marks = [name_of(one, "state"), "" if residency == "device" else residency, "cancelled" if one.cancelled else ""]
    state = ", ".join(mark for mark in marks if mark)
    age = span(max(0.0, time.time() - one.created))
    return (
        *(one.handle, one.uuid, state, one.executor, one.prompt, one.tokens, one.computed),
        *(one.blocks, one.shared_blocks, age, one.priority, one.deaths),
    )


def _say_rest(shown: int, total: int, what: str) -> None:
    if shown < total:
        typer.echo(f"\n{shown} of {total} {what}; --limit shows more.")
    elif not total:
        typer.echo(f"No {what}.")


def blocks(
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="CONDITION",
            help="state=cached,sealed  tier=host  sequence=ID  refs=2  refs>=2  refs<=1  pinned=yes  indexed=no  "
            "hash=PREFIX. Several have to hold all.",
        ),
    ] = None,
    limit: Limit = 100,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """List blocks, all or those that meet conditions."""
    from pagehold.client.commands.conditions import block_filter
    from pagehold.client.output import Column, print_json, show, table

    async def work(client: "AdminClient") -> "block_pb2.ListBlocksResponse":
        return await client.list_blocks(await block_filter(client, filter_ or []), limit)

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    columns = [
        *(Column("block", right=True), Column("state"), Column("refs", right=True), Column("marks")),
        *(Column("generation", right=True, from_width=70), Column("last use", right=True, from_width=84)),
        *(Column("hash", from_width=110), Column("parent", from_width=140)),
    ]
    if answer.blocks:
        show(table(columns, [_block_row(one) for one in answer.blocks]))
    return _say_rest(len(answer.blocks), answer.total, "blocks")


def _block_row(one: "block_pb2.Block") -> tuple[object, ...]:
    from pagehold.client.commands.wording import block_name
    from pagehold.client.output import ago, name_of

    marks = [word for word in ("indexed", "pinned", "fenced") if getattr(one, word)]
    if one.HasField("filling_step"):
        marks.append(f"step {one.filling_step} of {one.filling_executor}")
    used = ago(one.last_use / 1e6) if one.last_use and not one.references else "-"
    state = name_of(one, "state")
    return block_name(one.id), state, one.references, ", ".join(marks), one.generation, used, one.hash, one.parent
