"""The pool's size, and who may still admit."""

from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.options import ADDRESS, TIMEOUT, Address, Json, Pool, Timeout, call, fail

if TYPE_CHECKING:
    from pagehold.admin.v1 import executor_pb2, pool_pb2
    from pagehold.client.admin import AdminClient

Executor = Annotated[str | None, typer.Argument(metavar="EXECUTOR", help="Name or epoch; absent: the whole pool.")]


MOST_BLOCKS = (1 << 32) - 1


def resize(
    size: Annotated[
        str, typer.Argument(metavar="SIZE", help="Device blocks, the null block included; or bytes: 8GiB.")
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until no block beyond the new size is in use.")] = False,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Make a pool larger or smaller while it serves.

    What is in use beyond a smaller size is moved by the executors with their next turns; --wait waits for that.
    """
    from pagehold.client.commands.arguments import blocks_or_bytes
    from pagehold.client.output import print_json

    number, is_bytes = blocks_or_bytes(size)

    async def work(client: "AdminClient") -> "pool_pb2.ResizeResponse":
        blocks = number
        if is_bytes:
            blocks = number // (await client.pool_stats()).stats.geometry.block_bytes
        # What is beyond any field's limit is beyond the pool's too, and that the manager names.
        answer = await client.resize(min(blocks, MOST_BLOCKS))
        if wait and answer.in_use_beyond:
            await _wait_until_moved(client, answer)
        return answer

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    left = f"; {answer.in_use_beyond} blocks beyond it are in use and will be moved" if answer.in_use_beyond else ""
    return typer.echo(f"{answer.device_blocks_before} -> {answer.device_blocks} device blocks{left}")


async def _wait_until_moved(client: "AdminClient", answer: "pool_pb2.ResizeResponse") -> None:
    async for now in client.watch_stats(0.1):
        answer.in_use_beyond = now.stats.tiers[0].beyond_size
        answer.version.CopyFrom(now.version)
        if not answer.in_use_beyond:
            return


def drain(
    executor: Executor = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Admit nothing new, to one executor or to a whole pool; what is alive goes on to its end."""
    from pagehold.client.output import print_json

    async def work(client: "AdminClient") -> "pool_pb2.DrainResponse":
        return await client.drain(await _epoch_of(client, executor) if executor else None)

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    return typer.echo(f"draining {executor or 'the pool'}: {answer.sequences} sequences are still alive")


def undrain(
    executor: Executor = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Admit again."""
    from pagehold.client.output import print_json

    async def work(client: "AdminClient") -> "pool_pb2.UndrainResponse":
        return await client.undrain(await _epoch_of(client, executor) if executor else None)

    answer = call(work, address, pool, timeout)
    return print_json(answer) if json else typer.echo(f"{executor or 'the pool'} admits again")


def fence(
    executor: Annotated[str, typer.Argument(metavar="EXECUTOR", help="Name or epoch.")],
    why: Annotated[str | None, typer.Option("--why", help="The reason, for log and events.")] = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Revoke an executor's epoch and kill its processes. Its sequences wait for a successor."""
    from pagehold.client.output import name_of, print_json

    async def work(client: "AdminClient") -> "executor_pb2.FenceResponse":
        return await client.fence(await _epoch_of(client, executor), why)

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    return typer.echo(f"{executor} is {name_of(answer, 'state')}; processes killed: {answer.processes_killed}")


async def _epoch_of(client: "AdminClient", text: str) -> int:
    """Epoch of an executor by its name, of the latest registration; a number that is no name is an epoch."""
    known = (await client.list_executors()).executors
    named = [one.epoch for one in known if one.name == text]
    if named:
        return max(named)
    if text.isascii() and text.isdecimal():
        return int(text)
    names = ", ".join(sorted({one.name for one in known})) or "none"
    raise fail(f"there is no executor {text!r}; there are: {names}")
