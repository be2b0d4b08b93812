"""The children that a keeper is to run: a manager, engines and front doors, with how each is watched and stopped."""

from __future__ import annotations

import sys
from typing import Any

from blockmgr.keeper import ChildSettings
from executor.launch.settings import LaunchSettings, to_flags

PAGEHOLD = (sys.executable, "-P", "-m", "pagehold.client")
"""What starts a process of pagehold: this very installation, whatever lies in the current folder."""

MARGIN = 10.0
"""Seconds that a process has to end beyond what it allows itself, before it is killed."""

ENGINE_WATCHDOG = 30.0
"""Seconds between an engine's signs of life; to compile a kernel or to capture a graph takes a while."""

MANAGER, ENGINES, DOORS = range(3)
"""Stages: doors stop first, then engines, then the manager, so that whoever ends still finds whom it needs."""


def children_of(settings: LaunchSettings) -> list[ChildSettings]:
    """The children in the order in which they are started. None waits for another: each looks for it until it is there."""
    return [_manager(settings), *_engines(settings), *_doors(settings)]


def names(kind: str, count: int) -> list[str]:
    """Names of several of a kind, the first of which keeps its own whatever their number."""
    return [kind, *(f"{kind}-{number}" for number in range(2, count + 1))]


def _manager(settings: LaunchSettings) -> ChildSettings:
    command = _command(settings, "blockmgr", address=settings.manager.admin_address)
    return ChildSettings("manager", command, stage=MANAGER, stop_grace=settings.manager.stop_grace + MARGIN)


def _engines(settings: LaunchSettings) -> list[ChildSettings]:
    return [
        ChildSettings(
            name,
            _command(
                settings,
                "executor",
                settings.model,
                **settings.engine_flags,
                name=name,
                metrics_port=port_of(settings.engine.metrics_port, number),
            ),
            watchdog=ENGINE_WATCHDOG,
            start_limit=settings.up.engine_start_seconds,
            stop_grace=settings.engine.stop_grace + MARGIN,
            stage=ENGINES,
        )
        for number, name in enumerate(names("engine", settings.up.engines))
    ]


def _doors(settings: LaunchSettings) -> list[ChildSettings]:
    return [
        ChildSettings(
            name,
            _command(
                settings,
                "door",
                name=name,
                address=settings.door.address,
                metrics_port=port_of(settings.door.metrics_port, number),
            ),
            stop_grace=settings.door.grace + settings.door.announce_seconds + MARGIN,
            stage=DOORS,
        )
        for number, name in enumerate(names("door", settings.up.doors))
    ]


def port_of(first: int, number: int) -> int | None:
    """The metrics port of one of several of a kind, which have ports in a row; None: no metrics."""
    return first + number if first else None


def _command(settings: LaunchSettings, command: str, *arguments: str, **flags: Any) -> tuple[str, ...]:
    return (*PAGEHOLD, command, *arguments, *to_flags(flags), "--runtime-dir", str(settings.up.runtime_dir))
