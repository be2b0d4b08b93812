"""What people type for blocks, sequences, prompts, tiers and times, as the contracts have it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pagehold.admin.v1.block_pb2 import BlockId
    from pagehold.admin.v1.prefix_pb2 import Prompt

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"kib": 10, "mib": 20, "gib": 30, "tib": 40}


def sequence_key(text: str) -> dict[str, Any]:
    """A sequence: its handle in decimal, or the UUID of its request with or without hyphens."""
    if re.fullmatch(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}", text):
        return {"uuid": text}
    if text.isascii() and text.isdecimal() and int(text) < 1 << 64:
        return {"handle": int(text)}
    raise typer.BadParameter(f"{text!r} is neither a handle nor a UUID of 32 hexadecimal digits")


def block_of(text: str) -> "BlockId":
    """A block: 17 on the device, host:17 on the host tier."""
    from pagehold.admin.v1.block_pb2 import BlockId
    from pagehold.common.v1 import states_pb2

    tier, _, number = text.rpartition(":")
    if tier not in ("", "device", "host") or not (number.isascii() and number.isdecimal()) or int(number) >= 1 << 32:
        raise typer.BadParameter(f"{text!r} is no block: write 17, or host:17 for the host tier")
    return BlockId(tier=states_pb2.TIER_HOST if tier == "host" else states_pb2.TIER_DEVICE, block=int(number))


def tier_of(text: str | None) -> Any:
    """A tier by its name; None: unspecified."""
    from pagehold.common.v1 import states_pb2

    tiers = {None: states_pb2.TIER_UNSPECIFIED, "device": states_pb2.TIER_DEVICE, "host": states_pb2.TIER_HOST}
    if text not in tiers:
        raise typer.BadParameter(f"{text!r} is no tier: device or host")
    return tiers[text]


def enum_value(enum: Any, text: str) -> Any:
    """A value of a generated enum by the word that tables show, such as "copy-on-write"."""
    prefix = enum.DESCRIPTOR.values_by_number[0].name.removesuffix("UNSPECIFIED")
    words = {name.removeprefix(prefix).lower().replace("_", "-"): number for name, number in enum.items() if number}
    word = text.lower().replace("_", "-")
    if word not in words:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(words)}")
    return words[word]


def prompt_of(ids: str, salt: str | None, adapter: str | None) -> "Prompt":
    """A prompt from its token ids: "1,2,3", "1 2 3" or a JSON list; "@FILE" and "-" read them from there."""
    from pagehold.admin.v1.prefix_pb2 import Prompt

    numbers = _parts_of(text_of(ids))
    wrong = [part for part in numbers if not (part.isascii() and part.isdecimal()) or int(part) >= 1 << 31]
    if wrong or not numbers:
        found = f"{wrong[0]!r} is no token id" if wrong else "there are no token ids"
        raise typer.BadParameter(f"{found}: write them as 1,2,3")
    return Prompt(ids=map(int, numbers), cache_salt=None if salt is None else salt.encode(), adapter=adapter)


def are_ids(text: str) -> bool:
    """Whether a text is a list of token ids rather than a text to be read."""
    parts = _parts_of(text)
    return bool(parts) and all(part.isascii() and part.isdecimal() for part in parts)


def _parts_of(text: str) -> list[str]:
    return [part for part in re.split(r"[\s,]+", text.strip().strip("[]").strip()) if part]


def text_of(ids: str) -> str:
    """The text itself, or what is in the file that it names."""
    if ids == "-":
        import sys

        return sys.stdin.read()
    if not ids.startswith("@"):
        return ids
    try:
        return Path(ids[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{ids[1:]} cannot be read: {error}") from None


def seconds_of(text: str) -> float:
    """A time: "90", "90s", "30m", "2h", "1d"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in SECONDS:
        raise typer.BadParameter(f"{text!r} is no time: write 90, 30m, 2h or 1d")
    return float(match[1]) * SECONDS[match[2]]


def blocks_or_bytes(text: str) -> tuple[int, bool]:
    """A size in blocks ("4096") or in bytes ("8GiB"); whether it is bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is not None and match[2] in BYTES:
        return int(float(match[1]) * (1 << BYTES[match[2]])), True
    if match is not None and not match[2] and match[1].isdecimal():
        return int(match[1]), False
    raise typer.BadParameter(f"{text!r} is no size: write a number of blocks, or bytes as 512MiB or 8GiB")
