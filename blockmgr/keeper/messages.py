"""Notifications as they arrive: the part of systemd's sd_notify protocol that the keeper understands."""

from __future__ import annotations

from dataclasses import dataclass

#: Longest datagram that is read, as in systemd (NOTIFY_BUFFER_MAX).
LONGEST_MESSAGE = 4096

#: The name of a descriptor that came without one, as in systemd.
UNNAMED = "stored"


@dataclass(frozen=True)
class Notification:
    """One message. Fields that this program does not know are ignored, as the protocol demands."""

    ready: bool = False
    stopping: bool = False
    status: str | None = None
    alive: bool = False
    trigger: bool = False
    store: bool = False
    remove: bool = False
    name: str = UNNAMED
    watch: bool = True
    barrier: bool = False

    @classmethod
    def parse(cls, data: bytes) -> Notification:
        """Read `KEY=value` lines; of a key that is repeated the last line counts.

        Raises:
            ValueError: not UTF-8 text, or a NUL byte in it.
        """
        text = data.decode()
        if "\0" in text:
            raise ValueError("a notification holds a NUL byte")
        fields = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        return cls(
            ready=fields.get("READY") == "1",
            stopping=fields.get("STOPPING") == "1",
            status=fields.get("STATUS"),
            alive=fields.get("WATCHDOG") == "1",
            trigger=fields.get("WATCHDOG") == "trigger",
            store=fields.get("FDSTORE") == "1",
            remove=fields.get("FDSTOREREMOVE") == "1",
            name=fields.get("FDNAME", UNNAMED),
            watch=fields.get("FDPOLL") != "0",
            barrier=fields.get("BARRIER") == "1",
        )
