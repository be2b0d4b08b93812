"""What is said on the descriptor socket.

    {"op": "introduce", "instance": HEX, "processes": [{"pid": 7, "role": "engine"}, ...]}   + a pidfd for each
        -> {"ok": true}
    {"op": "fetch", "instance": HEX, "epoch": 3, "pool": "name"}
        -> {"items": [{"name": ..., "meta": {...}}, ...], "more": true}   + a descriptor for each; until more is false
    {"op": "return", "instance": HEX, "names": [...]}   + a descriptor for each
        -> {"ok": true}
    {"op": "ledger", "pool": "name"}   or null for the only pool
        -> {"items": [{"name": ..., "meta": {...}}], "more": false}   + a descriptor for reading only
    whatever is wrong
        -> {"error": REASON, "detail": TEXT}

`instance` is the executor's UUID, 32 hexadecimal digits. Whoever asks for a ledger needs none: it may be any process of
the manager's user, and gets what nothing is stored through by mistake. A packet carries 64 descriptors at most. A
connection may carry several requests, one after the other.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from blockmgr.packets import check_name
from blockmgr.processes import Process, ProcessError

#: Descriptors in one packet, and so processes in one introduction.
BATCH = 64

#: Longest packet, in bytes.
LONGEST_PACKET = 1 << 16

_INSTANCE = re.compile(r"[0-9a-f]{32}")
_LONGEST_TEXT = 255


class DescriptorError(Exception):
    """A request on the descriptor socket was refused or failed.

    `reason` is one word for programs: bad-request, bad-reply, not-allowed, busy, dead, not-visible, timeout,
    unreachable, internal, or one of the manager's own (not-serving, stale-epoch, unknown-pool, several-pools,
    not-wanted); `detail` is for people.
    """

    def __init__(self, reason: str, detail: str) -> None:
        """Say what went wrong."""
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Offer:
    """A descriptor to be passed to an executor. It stays its owner's; the executor gets a copy."""

    name: str
    descriptor: int
    meta: dict[str, Any] = field(default_factory=dict)


def encode(message: dict[str, Any]) -> bytes:
    """Return the message as one packet.

    Raises:
        DescriptorError: it does not fit.
    """
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > LONGEST_PACKET:
        raise DescriptorError("bad-request", f"the message has {len(data)} bytes, more than {LONGEST_PACKET}")
    return data


def decode(data: bytes) -> dict[str, Any]:
    """Return the message of a packet.

    Raises:
        DescriptorError: it is not one JSON object.
    """
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DescriptorError("bad-request", f"the packet is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise DescriptorError("bad-request", "the packet is not a JSON object")
    return message


def instance_of(message: dict[str, Any]) -> str:
    """Return the message's instance, checked."""
    value = message.get("instance")
    if not isinstance(value, str) or not _INSTANCE.fullmatch(value):
        raise DescriptorError("bad-request", f"instance: {_shown(value)} is not 32 lower-case hexadecimal digits")
    return value


def text_of(message: dict[str, Any], key: str) -> str:
    """Return a text field, 1 to 255 characters."""
    value = message.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        raise DescriptorError("bad-request", f"{key}: {_shown(value)} is not a text of 1 to {_LONGEST_TEXT} characters")
    return value


def number_of(message: dict[str, Any], key: str, least: int) -> int:
    """Return a field that is a whole number from `least` to 2^63 - 1."""
    value = message.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise DescriptorError("bad-request", f"{key}: {_shown(value)} is not a whole number from {least} to 2^63-1")
    return value


def list_of(message: dict[str, Any], key: str, descriptors: int) -> list[Any]:
    """Return a list field that has an entry for each descriptor that came, 1 to 64."""
    value = message.get(key)
    if not isinstance(value, list) or not 0 < len(value) <= BATCH:
        raise DescriptorError("bad-request", f"{key}: {_shown(value)} is not a list of 1 to {BATCH} entries")
    if len(value) != descriptors:
        raise DescriptorError("bad-request", f"{key}: {len(value)} entries, but {descriptors} descriptors came")
    return value


def names_of(message: dict[str, Any], descriptors: int) -> list[str]:
    """Return the names of the descriptors that came, each usable in a descriptor store and no two equal."""
    names = list_of(message, "names", descriptors)
    for name in names:
        if not isinstance(name, str):
            raise DescriptorError("bad-request", f"names: {_shown(name)} is not a text")
        try:
            check_name(name)
        except ValueError as error:
            raise DescriptorError("bad-request", f"names: {error}") from None
    if len(set(names)) != len(names):
        raise DescriptorError("bad-request", "names: one occurs twice")
    return names


def process_of(entry: object, pidfd: int) -> Process:
    """Return the process that an entry of an introduction announces, if `pidfd` is really its own and it lives."""
    if not isinstance(entry, dict):
        raise DescriptorError("bad-request", "processes: an entry is not an object")
    pid, role = number_of(entry, "pid", 1), text_of(entry, "role")
    try:
        process = Process.adopt(pidfd, role)
    except ProcessError as error:
        raise DescriptorError("bad-request", f"processes: {role} {pid}: {error}") from None
    if process.pid == 0:
        raise DescriptorError("not-visible", f"{role} {pid} lives in a pid namespace that the manager cannot see")
    if process.pid < 0 or process.is_dead:
        raise DescriptorError("dead", f"{role} {pid} has exited")
    if process.pid != pid:
        raise DescriptorError("bad-request", f"processes: {role} {pid}: the pidfd is of process {process.pid}")
    return process


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 64 else text[:61] + "..."
