"""Checks of every invariant of a pool, over the columns or a snapshot of them.

The numbers are those of ``docs/invariants.md``. Nothing here changes anything, and nothing trusts what is derived unless
it is what is being checked; so a snapshot can be checked off the manager's loop.
"""

from dataclasses import dataclass, field

import numpy as np

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.prefix import block_hash
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, Residency, SequenceState, TicketKind

S = BlockState


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold: its number, and what was found where."""

    invariant: int
    text: str


@dataclass(slots=True)
class Snapshot:
    """Copies of what the checks read, taken at one revision."""

    geometry: PoolGeometry
    revision: int
    capacity: int
    block: dict[str, np.ndarray]
    slot: dict[str, np.ndarray]
    tables: dict[int, np.ndarray]
    ticket: dict[str, np.ndarray]
    pinned: list[int]
    free: tuple[np.ndarray, np.ndarray]
    evictable: tuple[np.ndarray, np.ndarray]
    fenced: dict[int, int]
    """Block → number of the fence group that lists it."""
    index: tuple[dict[bytes, int], dict[bytes, int]]
    doubtful: frozenset[int]
    """Slots that may be about to write where they may not, so that each is looked at when it does."""
    found: list[Violation] = field(default_factory=list)

    def fail(self, invariant: int, text: str) -> None:
        """Note a violation."""
        self.found.append(Violation(invariant, text))


BLOCK_COLUMNS = ("state", "refs", "hash", "parent", "tokens", "indexed", "fence", "generation", "filler")
SLOT_COLUMNS = ("state", "blocks", "launched", "computed", "published", "count", "prompt", "residency", "owner")


def take_snapshot(state: PoolState, pinned: list[int]) -> Snapshot:
    """Copy what the checks need: some 15 MB and 5 to 20 ms at 100,000 cached blocks, most of it the price of fresh memory."""
    blocks, seqs, columns = state.blocks, state.sequences, state.columns
    size = state.geometry.tokens_per_block
    copies = {name: columns[f"block.{name}"].flat.copy() for name in BLOCK_COLUMNS if name != "tokens"}
    hashed = np.flatnonzero(copies["indexed"])
    tokens = blocks.tokens.flat.reshape(-1, size)
    return Snapshot(
        geometry=state.geometry,
        revision=state.events.revision,
        capacity=state.capacity,
        block=copies | {"tokens": np.take(tokens, hashed, axis=0)},
        slot={name: columns[f"slot.{name}"].flat.copy() for name in SLOT_COLUMNS},
        tables={slot: seqs.entries(slot) for slot in seqs.live()},
        ticket={name: columns[f"ticket.{name}"].flat.copy() for name in ("kind", "source", "index", "handle")},
        pinned=list(pinned),
        free=(blocks.tier(False).free_list(), blocks.tier(True).free_list()),
        evictable=(blocks.tier(False).order(), blocks.tier(True).order()),
        fenced={int(block): group.number for group in blocks.fences.groups() for block in group.blocks},
        index=(dict(blocks.index.device), dict(blocks.index.host)),
        doubtful=frozenset(seqs.doubtful),
    )


def verify(snapshot: Snapshot) -> list[Violation]:
    """Check all invariants that can be read off one moment. Empty: all hold."""
    for check in (_check_states, _check_counts, _check_writers, _check_fences, _check_index, _check_sequences):
        check(snapshot)
    return snapshot.found


def _check_states(s: Snapshot) -> None:
    """1: every block is in exactly one place, on each tier, and no block twice in a free list."""
    state, base = s.block["state"], s.geometry.host_base
    if state[0] != S.NULL or np.count_nonzero(state == S.NULL) != 1:
        s.fail(
            1, f"block 0 is {S(int(state[0])).name} and {np.count_nonzero(state == S.NULL)} blocks are NULL, not one"
        )
    for host, (free, evictable) in enumerate(zip(s.free, s.evictable, strict=True)):
        tier = np.zeros(len(state), dtype=bool)
        tier[base:] = bool(host)
        tier[:base] = not host
        for name, listed, want in (("free list", free, S.FREE), ("eviction order", evictable, S.CACHED)):
            if len(set(listed.tolist())) != len(listed):
                s.fail(1, f"a block is twice in the {name} of tier {host}")
            for block in listed[(state[listed] != want) | ~tier[listed]][:4].tolist():
                s.fail(1, f"block {block} is in the {name} of tier {host} and is {S(int(state[block])).name}")
        _check_quiet(s, tier, evictable)
        missing = np.setdiff1d(np.flatnonzero((state == S.FREE) & tier), free)
        for block in missing[:4].tolist():
            s.fail(1, f"block {block} is FREE and not in the free list")
    beyond = np.arange(len(state))
    absent = (state == S.ABSENT) & ((beyond < s.capacity) | (beyond >= base))
    for block in np.flatnonzero(absent)[:4].tolist():
        s.fail(1, f"block {block} is ABSENT inside the pool")


def _check_quiet(s: Snapshot, tier: np.ndarray, evictable: np.ndarray) -> None:
    """No block is lost: what is cached can be evicted, and what is fenced becomes free, unless a fence or hold keeps it."""
    state = s.block["state"]
    pending = np.flatnonzero(s.ticket["kind"])
    held = np.concatenate((pending, s.ticket["source"][pending], np.array(s.pinned, dtype=np.int64)))
    open_ = tier & (s.block["fence"] == 0)
    lost = np.setdiff1d(np.flatnonzero(open_ & (state == S.CACHED)), np.concatenate((evictable, held)))
    stuck = np.setdiff1d(np.flatnonzero(open_ & (state == S.FENCED)), held)
    for block in (*lost[:4].tolist(), *stuck[:4].tolist()):
        s.fail(
            1,
            f"block {block} is {S(int(state[block])).name}, and neither a fence nor a hold keeps it from being reused",
        )


def _check_counts(s: Snapshot) -> None:
    """2: a count is the number of table entries; and states agree with it."""
    counts = np.zeros(len(s.block["state"]), dtype=np.int64)
    for slot, entries in s.tables.items():
        if len(entries) and (int(entries.min()) <= 0 or int(entries.max()) >= len(counts)):
            s.fail(2, f"the table of slot {slot} names block {int(entries.min())} or {int(entries.max())}")
            continue
        if len(set(entries.tolist())) != len(entries):
            s.fail(2, f"the table of slot {slot} names a block twice")
        np.add.at(counts, entries, 1)
    refs, state = s.block["refs"], s.block["state"]
    for block in np.flatnonzero(counts != refs)[:4].tolist():
        s.fail(2, f"block {block} has the count {refs[block]}, and {counts[block]} table entries name it")
    used = np.isin(state, (S.OWNED, S.SEALED))
    for block in np.flatnonzero(used & (refs == 0))[:4].tolist():
        s.fail(2, f"block {block} is {S(int(state[block])).name} without a reference")
    unused = np.isin(state, (S.FREE, S.NULL, S.CACHED, S.FENCED, S.ABSENT, S.TARGET))
    for block in np.flatnonzero(unused & (refs != 0))[:4].tolist():
        s.fail(2, f"block {block} is {S(int(state[block])).name} with {refs[block]} references")


def _pending_by_place(s: Snapshot) -> dict[tuple[int, int], int]:
    mask = (1 << 20) - 1
    rows = np.flatnonzero(s.ticket["kind"]).tolist()
    return {
        (int(s.ticket["handle"][r]) & mask, int(s.ticket["index"][r])): r for r in rows if s.ticket["index"][r] >= 0
    }


def _check_writers(s: Snapshot) -> None:
    """3: at most one of those who share a block has written into it since, entries leaving by a ticket aside; and who is not
    looked at when it writes has only blocks of its own to write into.
    """
    size, pending = s.geometry.tokens_per_block, _pending_by_place(s)
    namers: dict[int, list[int]] = {}
    for slot, entries in s.tables.items():
        if s.slot["residency"][slot] != Residency.DEVICE:
            continue
        index = int(s.slot["launched"][slot]) // size
        ahead = entries[index:]
        if slot not in s.doubtful and ((s.block["refs"][ahead] != 1) | (s.block["state"][ahead] != S.OWNED)).any():
            s.fail(3, f"slot {slot} writes unseen from block {ahead[:1].tolist()} on, and they are not all its own")
        if index < len(entries) and (slot, index) not in pending:
            namers.setdefault(int(entries[index]), []).append(slot)
    for block, slots in namers.items():
        reached = [int(s.slot["launched"][slot]) for slot in slots]
        if len(slots) > 1 and sum(r > min(reached) for r in reached) > 1:
            s.fail(3, f"block {block} is written by more than one of the slots {slots}")


def _check_fences(s: Snapshot) -> None:
    """4: nothing is free or evictable while a step or a ticket may touch it."""
    loose = np.concatenate((*s.free, *s.evictable)).astype(np.int64)
    for block in loose[s.block["fence"][loose] != 0][:4].tolist():
        s.fail(4, f"block {block} can be handed out behind the closed fence {s.block['fence'][block]}")
    for block in np.flatnonzero(s.block["fence"]).tolist():
        if s.fenced.get(block) is None:
            s.fail(4, f"block {block} waits for fence {s.block['fence'][block]}, which nobody will open")
    held = [r for d in np.flatnonzero(s.ticket["kind"]).tolist() for r in (d, int(s.ticket["source"][d]))] + s.pinned
    for block in set(held) & set(loose.tolist()):
        s.fail(4, f"block {block} can be handed out while a ticket or a pin holds it")
    for destination in np.flatnonzero(s.ticket["kind"]).tolist():
        if s.block["state"][destination] not in (S.TARGET, S.FENCED):
            state, kind = (
                S(int(s.block["state"][destination])).name,
                TicketKind(int(s.ticket["kind"][destination])).name,
            )
            s.fail(4, f"block {destination} is the destination of a {kind} and {state}")


def _check_index(s: Snapshot) -> None:
    """5: an index entry names a filling, sealed or cached block whose hash recomputes from its tokens and parent."""
    indexed = np.flatnonzero(s.block["indexed"])
    for host, entries in enumerate(s.index):
        for key, block in entries.items():
            if (
                not s.block["indexed"][block]
                or s.block["hash"][block].tobytes() != key
                or s.geometry.is_host(block) != bool(host)
            ):
                s.fail(5, f"the index of tier {host} names block {block} under a hash that is not the block's")
    known = set(s.index[0].values()) | set(s.index[1].values())
    for place, block in enumerate(indexed.tolist()):
        if block not in known:
            s.fail(5, f"block {block} is marked indexed and no index entry names it")
        if s.block["state"][block] not in (S.FILLING, S.SEALED, S.CACHED):
            s.fail(5, f"block {block} is indexed and {S(int(s.block['state'][block])).name}")
        if block_hash(s.block["parent"][block].tobytes(), s.block["tokens"][place]) != s.block["hash"][block].tobytes():
            s.fail(5, f"the hash of block {block} does not recompute from its tokens and parent")


def _check_sequences(s: Snapshot) -> None:
    """Bounds of each live slot: computed ≤ launched ≤ what the table holds; published ones are full."""
    size, pending = s.geometry.tokens_per_block, _pending_by_place(s)
    for slot, entries in s.tables.items():
        row = {name: int(s.slot[name][slot]) for name in SLOT_COLUMNS}
        if not row["computed"] <= row["launched"] <= len(entries) * size:
            s.fail(
                2,
                f"slot {slot}: computed {row['computed']}, launched {row['launched']}, room for {len(entries) * size}",
            )
        if not row["prompt"] <= row["count"] <= s.geometry.max_length or row["published"] * size > row["launched"]:
            s.fail(2, f"slot {slot}: prompt {row['prompt']}, count {row['count']}, published {row['published']} blocks")
        if row["state"] not in (SequenceState.LIVE, SequenceState.ORPHANED):
            s.fail(2, f"slot {slot} has the state {row['state']}")
        if row["residency"] == Residency.RELEASED and len(entries):
            s.fail(2, f"slot {slot} has given up its blocks and names {len(entries)}")
        on_host = entries >= s.geometry.host_base
        if row["residency"] == Residency.DEVICE and any(
            (slot, i) not in pending for i in np.flatnonzero(on_host).tolist()
        ):
            s.fail(2, f"slot {slot} is on the device and names a host block that nothing brings back")
