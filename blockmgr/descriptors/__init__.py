"""The descriptor socket: executors hand over pidfds of their processes on it, and receive the memory to map;
whoever only looks on receives a ledger to read.

gRPC carries no descriptors, so they travel beside it on a unix socket of packets (SOCK_SEQPACKET): one JSON object a
packet, with the descriptors it speaks of. `protocol` says which.
"""

from __future__ import annotations

from blockmgr.descriptors.client import fetch, fetch_ledger, give_back, introduce
from blockmgr.descriptors.protocol import DescriptorError, Offer
from blockmgr.descriptors.server import DescriptorServer

__all__ = ["DescriptorError", "DescriptorServer", "Offer", "fetch", "fetch_ledger", "give_back", "introduce"]
