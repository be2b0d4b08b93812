"""The sizes that fix a pool's ledger: chosen once, when the pool is made."""

from dataclasses import dataclass, fields

from blockmgr.core.errors import InvalidMessage

SLOT_BITS = 20
"""Bits of a handle that number the slot; the tenancy stands above them."""

SLOT_MASK = (1 << SLOT_BITS) - 1


@dataclass(frozen=True, slots=True)
class PoolGeometry:
    """Sizes of a pool and its ledger. Columns are allocated sparsely, so generous limits cost address space only.

    ``device_blocks`` counts the null block; ``max_device_blocks`` is how far the pool may ever grow.
    """

    tokens_per_block: int
    block_bytes: int
    device_blocks: int
    max_device_blocks: int = 0
    host_blocks: int = 0
    max_sequences: int = 1024
    max_length: int = 8192
    """Tokens of the longest sequence, prompt and output together."""
    max_executors: int = 16
    max_pins: int = 1024
    request_bytes: int = 65536
    """Limit of a serialised request stored with its sequence."""
    reply_bytes: int = 4 << 20
    """Limit of one reply, which is kept until the executor's next message."""
    archive_bytes: int = 16 << 20
    """Bytes of the ring that keeps finished requests."""
    archive_rows: int = 4096

    def __post_init__(self) -> None:
        if self.max_device_blocks == 0:
            object.__setattr__(self, "max_device_blocks", self.device_blocks)
        limits = {
            "tokens_per_block": (1, 1 << 10),
            "block_bytes": (1, 1 << 40),
            "device_blocks": (2, 1 << 30),
            "max_device_blocks": (self.device_blocks, 1 << 30),
            "host_blocks": (0, 1 << 30),
            "max_sequences": (1, 1 << SLOT_BITS),
            "max_length": (1, 1 << 26),
            "max_executors": (1, 256),
            "max_pins": (1, 1 << 20),
            "request_bytes": (0, 1 << 24),
            "reply_bytes": (4096, 1 << 26),
            "archive_bytes": (4096, 1 << 34),
            "archive_rows": (1, 1 << 20),
        }
        for field in fields(self):
            low, high = limits[field.name]
            value = getattr(self, field.name)
            if not low <= value <= high:
                raise InvalidMessage(field.name, value, f"must lie in {low}..{high}")

    @property
    def host_base(self) -> int:
        """Number of the host tier's first block in the ledger's one block numbering (device first, host behind it)."""
        return self.max_device_blocks

    @property
    def total_blocks(self) -> int:
        """Rows of the block columns: the device at its largest, then the host tier."""
        return self.max_device_blocks + self.host_blocks

    @property
    def max_table(self) -> int:
        """Entries of the longest block table."""
        return self.blocks_for(self.max_length) + 1

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold ``tokens`` tokens."""
        return -(-tokens // self.tokens_per_block)

    def is_host(self, block: int) -> bool:
        """Whether a ledger block number belongs to the host tier."""
        return block >= self.max_device_blocks


def handle_of(tenancy: int, slot: int) -> int:
    """The handle under which everyone names a sequence: stale as soon as the slot changes hands."""
    return tenancy << SLOT_BITS | slot


def slot_of(handle: int) -> int:
    """The slot that a handle names, whatever its tenancy."""
    return handle & SLOT_MASK
