"""What is printed once all is ready: where everything is, and what to type next; then how it is doing, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from blockmgr.runtime import default_runtime_dir
from blockmgr.service.settings import ManagerSettings
from executor.frontend.settings import DoorSettings
from executor.launch.plan import names, port_of
from executor.launch.readiness import State
from executor.launch.settings import LaunchSettings
from pagehold.client import AsyncClient, PageholdError
from pagehold.client.admin import AdminClient, AdminError

MODEL_SECONDS = 5.0
"""How long a front door may take to say what it serves."""


def summary_of(settings: LaunchSettings, chats: bool) -> str:
    """Every address and socket, and examples of commands; `chats`: the model has a chat template."""
    folder = settings.up.runtime_dir
    places = [
        ("clients", settings.door.address),
        ("operators", settings.manager.admin_address),
        ("sockets", str(settings.manager.executor_socket)),
        ("", str(settings.manager.descriptor_socket)),
        *(("", str(folder / "engines" / f"{name}.sock")) for name in names("engine", settings.up.engines)),
        *(("", str(folder / "doors" / f"{name}.sock")) for name in names("door", settings.up.doors)),
        *_metrics(settings),
        ("log", str(settings.up.log_path or "standard error")),
    ]
    lines = [f"pagehold serves {settings.model}", ""]
    lines += [f"  {title:<10} {place}" for title, place in places]
    lines += ["", *(f"  {command}" for command in _examples(settings, chats)), ""]
    return "\n".join(lines)


def _metrics(settings: LaunchSettings) -> list[tuple[str, str]]:
    """Where each process that has a port for them shows its metrics."""
    ports = [("manager", settings.manager.metrics_port or None)]
    ports += [
        (name, port_of(first, number))
        for kind, count, first in (
            ("engine", settings.up.engines, settings.engine.metrics_port),
            ("door", settings.up.doors, settings.door.metrics_port),
        )
        for number, name in enumerate(names(kind, count))
    ]
    shown = [f"http://127.0.0.1:{port}/metrics ({name})" for name, port in ports if port is not None]
    return list(zip(["metrics", *[""] * len(shown)], shown, strict=False))


def _examples(settings: LaunchSettings, chats: bool) -> list[str]:
    client = _option("--address", settings.door.address, DoorSettings.model_fields["address"].default)
    operator = _option(
        "--address", settings.manager.admin_address, ManagerSettings.model_fields["admin_address"].default
    )
    folder = _option("--runtime-dir", str(settings.up.runtime_dir), str(default_runtime_dir()))
    asking = [
        f'pagehold generate --chat "What is the capital of France?"{client}',
        f"pagehold chat{client}",
    ]
    return [
        *(asking if chats else [f'pagehold generate "Once upon a time"{client}']),
        f"pagehold pool{operator}",
        f"pagehold sequences{operator}",
        f"pagehold down{folder}",
    ]


def _option(flag: str, value: str, default: str) -> str:
    return "" if value == default else f" {flag} {value}"


async def has_chat_template(address: str) -> bool:
    """Whether the model that is served there can be talked with, as far as its server says."""
    async with AsyncClient(address) as client:
        try:
            return (await client.model(timeout=MODEL_SECONDS)).chat
        except PageholdError:
            return False


async def figures_of(client: AdminClient) -> str:
    """Sequences and blocks of all pools, as the manager counts them; "" where it does not answer."""
    try:
        pools = (await client.list_pools()).pools
    except AdminError:
        return ""
    sequences = sum(pool.sequences for pool in pools)
    blocks = sum(pool.device_blocks for pool in pools)
    used = blocks - sum(pool.available_blocks for pool in pools)
    return f"{sequences} sequence{'' if sequences == 1 else 's'}, {used} of {blocks} blocks in use"


def status_line(state: State, seconds: float, figures: str, restarts: Mapping[str, int]) -> str:
    """How all is doing, in a line, so many seconds after the start."""
    waiting = [name for name, child in state.children.items() if not child.ready]
    health = "serving" if not waiting else f"waiting for {', '.join(waiting)}"
    parts = [health, figures, f"up {timedelta(seconds=int(seconds))}"]
    again = [f"{name} ×{count}" for name, count in restarts.items() if count]
    if again:
        parts.append(f"started again: {', '.join(again)}")
    return " · ".join(part for part in [*parts, "Ctrl-C stops"] if part)
