"""Requests that this door submitted and that have not ended, by the server's id and by the caller's name."""

from collections.abc import Iterator
from dataclasses import dataclass

from executor.frontend.errors import AlreadyExists, InvalidRequest
from executor.frontend.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. ``body`` is the digest of what it says."""

    sequence: Sequence
    body: bytes


class Registry:
    """Every request in flight here. Names are taken before anything is submitted, so none is taken twice."""

    def __init__(self) -> None:
        self._by_uuid: dict[bytes, Entry] = {}
        self._by_name: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._by_uuid)

    def __iter__(self) -> Iterator[Sequence]:
        return iter([entry.sequence for entry in self._by_uuid.values()])

    def add(self, sequence: Sequence, body: bytes) -> None:
        """Enter a request. Raises AlreadyExists or InvalidRequest where its name is taken by one in flight."""
        name = sequence.request.request_id
        taken = self._by_name.get(name) if name else None
        if taken is not None:
            raise taken_name(name, same_body=taken.body == body, where=f"by request {taken.sequence.id}")
        entry = Entry(sequence, body)
        self._by_uuid[sequence.uuid] = entry
        if name:
            self._by_name[name] = entry

    def remove(self, sequence: Sequence) -> None:
        """Its end is known here, or somebody else's concern. May be repeated."""
        entry = self._by_uuid.pop(sequence.uuid, None)
        name = sequence.request.request_id
        if entry is not None and self._by_name.get(name) is entry:
            del self._by_name[name]

    def find(self, uuid: bytes) -> Sequence | None:
        """By the server's id."""
        entry = self._by_uuid.get(uuid)
        return None if entry is None else entry.sequence

    def find_name(self, name: str) -> Sequence | None:
        """By the caller's name."""
        entry = self._by_name.get(name)
        return None if entry is None else entry.sequence


def taken_name(name: str, same_body: bool, where: str = "") -> AlreadyExists | InvalidRequest:
    """What to say of a name that is taken: by the same request, or by another one."""
    if same_body:
        return AlreadyExists(f"request_id {name!r} is taken {where}: in flight, or just ended; attach to it instead")
    return InvalidRequest.of("request_id", f"is {name!r}, which is taken {where or 'by a request'} with another body")
