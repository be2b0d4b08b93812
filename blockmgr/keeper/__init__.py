"""The keeper: starts the manager, starts it again whenever it ends, and holds copies of its descriptors meanwhile.

It implements the receiving side of systemd's notification protocol and descriptor store, so a process that runs under
it runs under systemd unchanged. It decides nothing else, has one thread, and imports nothing but the standard library.
"""

from __future__ import annotations

from blockmgr.keeper.child import ChildSettings, RestartDelay
from blockmgr.keeper.keeper import Keeper, run_keeper
from blockmgr.keeper.runtime import KeeperError

__all__ = ["ChildSettings", "Keeper", "KeeperError", "RestartDelay", "run_keeper"]
