"""How blocks, sequences and pages are named on the wire, and read back from there."""

from uuid import UUID

from blockmgr.core.errors import InvalidMessage, NotFound
from blockmgr.core.geometry import PoolGeometry
from pagehold.admin.v1.block_pb2 import BlockId
from pagehold.common.v1 import states_pb2

HASH_DIGITS = 32


def block_id(geometry: PoolGeometry, block: int) -> BlockId:
    """The name of a block, by its number in the ledger."""
    if geometry.is_host(block):
        return BlockId(tier=states_pb2.TIER_HOST, block=block - geometry.host_base)
    return BlockId(tier=states_pb2.TIER_DEVICE, block=block)


def ledger_block(geometry: PoolGeometry, name: BlockId) -> int:
    """The ledger's number of a block. Raises ``NotFound`` if its tier has none of that number."""
    host = is_host_tier(name.tier, "id.tier")
    blocks, tier = (geometry.host_blocks, "host") if host else (geometry.max_device_blocks, "device")
    if name.block >= blocks:
        there = f"its blocks are 0..{blocks - 1}" if blocks else "it has none"
        raise NotFound(f"there is no block {name.block} on the {tier} tier: {there}")
    return name.block + (geometry.host_base if host else 0)


def is_host_tier(tier: int, field: str) -> bool:
    """Whether the host tier is meant; unspecified means the device."""
    if tier not in (states_pb2.TIER_UNSPECIFIED, states_pb2.TIER_DEVICE, states_pb2.TIER_HOST):
        raise InvalidMessage(field, tier, "must be TIER_DEVICE or TIER_HOST")
    return tier == states_pb2.TIER_HOST


def uuid_text(uuid: bytes) -> str:
    """A UUID in its usual form."""
    return str(UUID(bytes=uuid))


def uuid_bytes(text: str, field: str) -> bytes:
    """The 16 bytes of a UUID in its usual form, or as 32 digits."""
    try:
        return UUID(text).bytes
    except ValueError:
        raise InvalidMessage(field, repr(text), "must be a UUID of 32 hexadecimal digits") from None


def hash_digits(text: str, field: str) -> str:
    """Checked hexadecimal digits of a hash, or of its beginning."""
    digits = text.lower()
    if len(digits) > HASH_DIGITS or digits.strip("0123456789abcdef"):
        raise InvalidMessage(field, repr(text), f"must be at most {HASH_DIGITS} hexadecimal digits")
    return digits


def page_start(token: str) -> int:
    """Where a page begins: the number that the last page ended with."""
    if token and not (token.isascii() and token.isdecimal() and len(token) < 12):
        raise InvalidMessage("page_token", repr(token), "must be the next_page_token of an earlier answer")
    return int(token or 0)


def within(field: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside its limits."""
    if not low <= value <= high:
        raise InvalidMessage(field, value, f"must lie in {low}..{high}")
