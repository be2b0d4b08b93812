"""What operators ask of the manager: the pool looked at from every side, and changed by hand.

Everything is read on the loop, as copies of what is needed, and made into messages in a thread: the loop is held up for a
few milliseconds at most, and an answer speaks of one moment.
"""

from blockmgr.service.admin.servicer import AdminServicer, add_to_server

__all__ = ["AdminServicer", "add_to_server"]
