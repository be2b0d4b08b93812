"""Finding requests by what their callers call them, wherever they are."""

import uuid
from dataclasses import dataclass
from typing import Any

from executor.frontend.door import Door
from executor.frontend.errors import InvalidRequest, NotFound
from executor.frontend.parameters import caller_digest
from executor.frontend.validation import Findings, check_request_id
from executor.outputs import root_of
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.engine.v1 import request_pb2

MOST_WORK = 10_000
"""Requests of an engine that are looked through for one that was not accepted yet."""


ATTEMPTS = 5
"""How often a sequence is looked at that ends or changes hands just then."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request is: its UUID, and the pool if that is known."""

    uuid: bytes
    pool: str | None = None


async def find(door: Door, key: Any) -> Place:
    """What a message's ``id`` or ``request_id`` names; the id of one of its outputs names the request. Raises
    InvalidRequest, or NotFound for an unknown name.
    """
    if key.WhichOneof("key") == "id":
        return await _find_id(door, parse_id(key.id))
    if key.WhichOneof("key") is None:
        raise InvalidRequest.of("id", "is absent, as is request_id; one of them is required")
    found = Findings()
    check_request_id(found, key.request_id)
    found.raise_if_any()
    return await _find_name(door, key.request_id)


def parse_id(text: str) -> bytes:
    """A server's id as bytes."""
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise InvalidRequest.of("id", f"is {text[:40]!r}, but must be a UUID") from None


async def _find_id(door: Door, uuid: bytes) -> Place:
    if door.registry.find(uuid) is None:
        for pool in pools(door):
            known = await known_of(door, pool, uuid)
            if known is not None:
                return Place(root_of(known[1], uuid), pool)
    return Place(uuid)


async def known_of(
    door: Door, pool: str, uuid: bytes
) -> tuple[sequence_pb2.LookupSequenceResponse, request_pb2.Request] | None:
    """What the manager knows of a sequence, and what is kept with it, which says which outputs its request has.

    Where its row is gone by the time it is read, it has ended since, or changed hands, and the manager is asked again.
    Empty where the row cannot be read here.
    """
    found = await door.manager.look_up(pool, uuid=uuid)
    for _ in range(ATTEMPTS):
        if found is None:
            return None
        if found.WhichOneof("found") == "finished":
            return found, request_pb2.Request.FromString(found.finished.request)
        row = door.ledgers.row(pool, found.live.handle)
        if row is not None and row.uuid == uuid:
            return found, request_pb2.Request.FromString(row.request)
        found = await door.manager.look_up(pool, uuid=uuid)
    return None if found is None else (found, request_pb2.Request())


async def _find_name(door: Door, name: str) -> Place:
    sequence = door.registry.find_name(name)
    if sequence is not None:
        return Place(sequence.uuid, sequence.pool)
    for pool in pools(door):
        found = await door.manager.look_up(pool, caller=caller_digest(name))
        if found is not None:
            what = found.live if found.WhichOneof("found") == "live" else found.finished
            return Place(what.uuid, pool)
    for link in door.engines:
        listed = await link.list_work(MOST_WORK)
        for work in listed.work if listed is not None else ():
            if work.request_id == name:
                return Place(work.uuid)
    raise NotFound(f"no request is called {name!r}, nor was one that is still kept")


def pools(door: Door) -> list[str]:
    """Names of the pools that engines work in."""
    return sorted({model.pool.name for model in door.models.all})


async def look_up(door: Door, place: Place) -> tuple[str, sequence_pb2.LookupSequenceResponse]:
    """The pool that a request is in, and what the manager knows of it. Raises NotFound."""
    for pool in [place.pool] if place.pool is not None else pools(door):
        found = await door.manager.look_up(pool, uuid=place.uuid)
        if found is not None:
            return pool, found
    raise unknown(place)


def unknown(place: Place) -> NotFound:
    """What to say of a UUID that nobody knows."""
    return NotFound(f"no request has the id {uuid.UUID(bytes=place.uuid)}, nor had one that is still kept")
