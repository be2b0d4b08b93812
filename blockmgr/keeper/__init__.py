"""The keeper: starts its children, the manager above all, starts them again whenever they end, and holds copies of their
descriptors meanwhile.

It implements the receiving side of systemd's notification protocol and descriptor store, so a process that runs under
it runs under systemd unchanged. It decides nothing else, has one thread, and imports nothing but the standard library.
"""

from __future__ import annotations

from blockmgr.keeper.keeper import Keeper, run_keeper
from blockmgr.keeper.runtime import KeeperError
from blockmgr.keeper.settings import ChildSettings, RestartDelay, read_plan, write_plan

__all__ = ["ChildSettings", "Keeper", "KeeperError", "RestartDelay", "read_plan", "run_keeper", "write_plan"]
