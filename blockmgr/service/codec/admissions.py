"""Prompts that ask for a slot and blocks, both ways. Defaults are left out, so that the manager's apply."""

import numpy as np

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Admission
from blockmgr.core.states import SequenceFlags
from blockmgr.service.codec.packing import pack
from pagehold.blockmgr.v1 import turn_pb2

NO_DIGEST = bytes(16)


def decode_admission(request: turn_pb2.Admission, field: str) -> Admission:
    """A prompt as the core takes it. Raises ``InvalidMessage`` naming ``field`` where its form is wrong."""
    for name in ("reserve", "max_length"):
        if request.HasField(name) and not getattr(request, name):
            raise InvalidMessage(f"{field}.{name}", 0, "must be at least 1; leave it out for the default")
    flags = SequenceFlags.NONE
    if request.bypass_cache:
        flags |= SequenceFlags.BYPASS
    if request.no_store:
        flags |= SequenceFlags.NO_STORE
    return Admission(
        uuid=request.uuid,
        prompt=np.array(request.prompt, dtype=np.int32),
        reserve=request.reserve,
        max_length=request.max_length,
        salt=request.cache_salt,
        adapter=request.adapter,
        flags=flags,
        priority=request.priority,
        caller=request.caller if request.HasField("caller") else NO_DIGEST,
        body=request.body if request.HasField("body") else NO_DIGEST,
        request=request.request,
    )


def encode_admission(request: Admission, wire: turn_pb2.Admission) -> None:
    """Fill an empty message with a prompt."""
    wire.uuid, wire.request = request.uuid, request.request
    wire.cache_salt, wire.adapter = request.salt, request.adapter
    pack(wire, prompt=request.prompt)
    for name in ("reserve", "max_length", "priority"):
        value = getattr(request, name)
        if value:
            setattr(wire, name, value)
    for name in ("caller", "body"):
        digest = getattr(request, name)
        if digest != NO_DIGEST:
            setattr(wire, name, digest)
    if request.flags & SequenceFlags.BYPASS:
        wire.bypass_cache = True
    if request.flags & SequenceFlags.NO_STORE:
        wire.no_store = True
