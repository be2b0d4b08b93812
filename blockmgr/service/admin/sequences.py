"""Sequences listed, and one with its block table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from blockmgr.core.archive import FinishedRequest
from blockmgr.core.columns import Indexes
from blockmgr.core.errors import InvalidMessage, NotFound
from blockmgr.core.pool import Pool
from blockmgr.core.state import PoolState
from blockmgr.core.states import SequenceFlags
from blockmgr.service.admin.blocks import HASHED
from blockmgr.service.admin.holders import ticket_message
from blockmgr.service.admin.identifiers import block_id, page_start, uuid_bytes, uuid_text, within
from blockmgr.service.admin.numbers import BLOCK_STATE, FINISH_REASON, RESIDENCY, SEQUENCE_STATE
from blockmgr.service.admin.tables import entries_of, live_slots
from blockmgr.service.codec.enums import RESIDENCIES, SEQUENCE_STATES
from pagehold.admin.v1 import sequence_pb2
from pagehold.common.v1.version_pb2 import StateVersion

PAGE_LIMIT, PAGE_DEFAULT = 1000, 100
NUMBERS = (
    *("tenancy", "state", "residency", "owner", "epoch", "prompt", "count", "computed", "launched", "blocks", "final"),
    *("cancel", "priority", "created", "score", "family", "deaths", "flags", "attachment"),
)


@dataclass(slots=True)
class SequenceRows:
    """What the columns say of some sequences. A copy: may be read off the loop."""

    slots: Indexes
    columns: dict[str, np.ndarray]
    handles: list[int]
    shared: Indexes
    executors: dict[int, str]

    def messages(self) -> Iterator[sequence_pb2.Sequence]:
        """Each sequence as a message."""
        columns = {name: self.columns[name].tolist() for name in NUMBERS}
        for place, slot in enumerate(self.slots.tolist()):
            c = {name: column[place] for name, column in columns.items()}
            yield sequence_pb2.Sequence(
                handle=self.handles[place],
                uuid=uuid_text(self.columns["uuid"][place].tobytes()),
                slot=slot,
                state=SEQUENCE_STATE[c["state"]],
                residency=RESIDENCY[c["residency"]],
                executor=self.executors.get(c["owner"], ""),
                executor_epoch=c["epoch"],
                prompt=c["prompt"],
                tokens=c["count"],
                computed=c["computed"],
                launched=c["launched"],
                blocks=c["blocks"],
                shared_blocks=int(self.shared[place]),
                final_length=c["final"] if c["final"] >= 0 else None,
                cancelled=bool(c["cancel"]),
                priority=c["priority"],
                created=c["created"],
                score=c["score"],
                family=c["family"],
                deaths=c["deaths"],
                bypass_cache=bool(c["flags"] & SequenceFlags.BYPASS),
                no_store=bool(c["flags"] & SequenceFlags.NO_STORE),
                attachment=c["attachment"],
            )


def copy_sequences(state: PoolState, slots: Indexes) -> SequenceRows:
    """Copy what the columns say of the sequences in some slots."""
    seqs, entries = state.sequences, entries_of(state, slots)
    return SequenceRows(
        slots=slots,
        columns={name: state.columns[f"slot.{name}"].flat[slots] for name in (*NUMBERS, "uuid")},
        handles=[seqs.handle(slot) for slot in slots.tolist()],
        shared=entries.sum(state.blocks.refs.flat[entries.block] > 1),
        executors={row: state.executors.name_of(row) for row in state.executors.rows()},
    )


def find_sequences(
    pool: Pool, request: sequence_pb2.ListSequencesRequest, version: StateVersion
) -> Callable[[], sequence_pb2.ListSequencesResponse]:
    """Copy a page of the sequences that match. What is returned makes the answer, and may be called off the loop."""
    size = request.page_size if request.HasField("page_size") else PAGE_DEFAULT
    within("page_size", size, 1, PAGE_LIMIT)
    start = page_start(request.page_token)
    matching = _matching(pool.state, request)
    first = int(np.searchsorted(matching, start))
    slots = matching[first : first + size]
    token = str(int(slots[-1]) + 1) if first + size < len(matching) else ""
    rows = copy_sequences(pool.state, slots)

    def answer() -> sequence_pb2.ListSequencesResponse:
        return sequence_pb2.ListSequencesResponse(
            version=version, sequences=rows.messages(), next_page_token=token, total=len(matching)
        )

    return answer


def _matching(state: PoolState, request: sequence_pb2.ListSequencesRequest) -> Indexes:
    seqs, slots = state.sequences, live_slots(state)
    states = [SEQUENCE_STATES.decode(number, "states") for number in request.states]
    if states:
        slots = slots[np.isin(seqs.state.flat[slots], states)]
    residencies = [RESIDENCIES.decode(number, "residencies") for number in request.residencies]
    if residencies:
        slots = slots[np.isin(seqs.residency.flat[slots], residencies)]
    if request.HasField("executor"):
        rows = state.executors.named(request.executor)
        if not rows:
            names = sorted({state.executors.name_of(row) for row in state.executors.rows()})
            raise NotFound(f"there is no executor {request.executor!r}; there are {names or 'none'}")
        slots = slots[np.isin(seqs.owner.flat[slots], rows)]
    return slots


def show_sequence(
    pool: Pool, request: sequence_pb2.GetSequenceRequest, version: StateVersion
) -> Callable[[], sequence_pb2.GetSequenceResponse]:
    """Copy one sequence, alive or finished. What is returned makes the answer, and may be called off the loop.

    Raises ``NotFound`` if none is known under the handle or UUID.
    """
    key = request.WhichOneof("key")
    if key is None:
        raise InvalidMessage("key", "absent", "a handle or a uuid must be given")
    if key == "handle":
        return _show_live(pool.state, pool.state.sequences.find(request.handle), request.with_ids, version)
    uuid = uuid_bytes(request.uuid, "uuid")
    slot = pool.state.sequences.by_uuid.get(uuid)
    if slot is not None:
        return _show_live(pool.state, slot, request.with_ids, version)
    record = pool.state.archive.find(uuid)
    if record is None:
        raise NotFound(f"no sequence has the uuid {uuid_text(uuid)}, nor had one that is still kept")
    return _show_finished(record, request.with_ids, version)


def _show_live(
    state: PoolState, slot: int, with_ids: bool, version: StateVersion
) -> Callable[[], sequence_pb2.GetSequenceResponse]:
    seqs, blocks = state.sequences, state.blocks
    rows = copy_sequences(state, np.array([slot]))
    entries = seqs.entries(slot)
    columns = [column.flat[entries].tolist() for column in (blocks.state, blocks.refs)]
    hashes = blocks.hash.flat[entries]
    ids = seqs.tokens.row(slot, seqs.count.get(slot)).copy() if with_ids else np.zeros(0, dtype=np.int32)
    pending = sorted(state.tickets.of_slot.get(slot, {}).items())
    tickets = [ticket_message(state, destination) for _, destination in pending]
    geometry, size = state.geometry, state.geometry.tokens_per_block

    def answer() -> sequence_pb2.GetSequenceResponse:
        (live,) = rows.messages()
        response = sequence_pb2.GetSequenceResponse(version=version, live=live, tickets=tickets, ids=ids.tolist())
        for index, (number, block_state, refs) in enumerate(zip(entries.tolist(), *columns, strict=True)):
            name = block_id(geometry, number)
            response.table.add(
                block=name.block,
                tier=name.tier,
                state=BLOCK_STATE[block_state],
                references=refs,
                tokens=min(max(live.tokens - index * size, 0), size),
                computed=min(max(live.computed - index * size, 0), size),
                hash=hashes[index].tobytes().hex() if block_state in HASHED else None,
            )
        return response

    return answer


def _show_finished(
    record: FinishedRequest, with_ids: bool, version: StateVersion
) -> Callable[[], sequence_pb2.GetSequenceResponse]:
    def answer() -> sequence_pb2.GetSequenceResponse:
        finished = sequence_pb2.FinishedRequest(
            uuid=uuid_text(record.uuid),
            prompt=record.prompt,
            tokens=len(record.tokens),
            final_length=record.final,
            reason=FINISH_REASON[record.reason],
            score=record.score,
            created=record.created,
            finished=record.finished,
        )
        ids = record.tokens.tolist() if with_ids else []
        return sequence_pb2.GetSequenceResponse(version=version, finished=finished, ids=ids)

    return answer
