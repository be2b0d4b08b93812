"""An executor's side of the block manager: registration, mapped memory, and the exchange of turns. Imports no torch."""

from executor.manager.channel import insist
from executor.manager.mapping import PoolMapping
from executor.manager.registration import Registration, register
from executor.manager.session import ManagerSession, Revoked

__all__ = ["ManagerSession", "PoolMapping", "Registration", "Revoked", "insist", "register"]
