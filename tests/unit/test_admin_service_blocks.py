"""Blocks listed and shown with everything that holds them, dumps, and the check of all invariants."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from blockmgr.core.messages import Child, Fork
from blockmgr.core.states import BlockState
from blockmgr.service.admin import dump
from pagehold.admin.v1 import block_pb2, dump_pb2, pin_pb2, verify_pb2
from pagehold.common.v1 import event_pb2
from pagehold.common.v1 import states_pb2 as states
from tests.admin_server import AdminServer, Failing, geometry_of

DEVICE, HOST = states.TIER_DEVICE, states.TIER_HOST


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of(host_blocks=8)) as server:
        yield server


def shown(server: AdminServer, block: int, tier: Any = DEVICE, **request: Any) -> block_pb2.GetBlockResponse:
    with server.stub() as stub:
        id_ = block_pb2.BlockId(tier=tier, block=block)
        return stub.GetBlock(block_pb2.GetBlockRequest(id=id_, **request))


def listed(server: AdminServer, **conditions: Any) -> list[int]:
    with server.stub() as stub:
        request = block_pb2.ListBlocksRequest(filter=block_pb2.BlockFilter(**conditions))
        return [one.id.block for one in stub.ListBlocks(request).blocks]


def table_of(server: AdminServer, handle: int) -> list[int]:
    return server.on_loop(lambda: server.pool.state.sequences.entries(handle & 0xFFFFF).tolist())


def test_a_block_shows_every_table_that_names_it(server: AdminServer) -> None:
    worker = server.worker()
    (parent,) = worker.prefill(list(range(9)))
    forked = worker.turn(forks=[Fork(parent, [Child(server.next_uuid())])]).forked[0].handles
    answer = shown(server, table_of(server, parent)[1])
    assert answer.block.references == 2
    assert {(one.table.handle, one.table.index) for one in answer.holders} == {(parent, 1), (forked[0], 1)}
    assert list(answer.ids) == [4, 5, 6, 7]
    assert answer.block.parent == shown(server, table_of(server, parent)[0]).block.hash


def test_a_block_shows_the_pin_and_the_copy_that_hold_it(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(8)))
    block = table_of(server, handle)[0]
    with server.stub() as stub:
        target = pin_pb2.BlockPin(id=block_pb2.BlockId(block=block))
        stub.Pin(pin_pb2.PinRequest(block=target, label="kept"))
    worker.turn(swap_out=np.array([handle]))
    answer = shown(server, block)
    by_kind = {one.WhichOneof("holder"): one for one in answer.holders}
    assert set(by_kind) == {"table", "pin", "ticket"}
    assert by_kind["pin"].pin.label == "kept"
    assert by_kind["ticket"].ticket.source == block
    assert answer.block.pinned
    destination = shown(server, by_kind["ticket"].ticket.destination, HOST)
    assert destination.block.state == states.BLOCK_STATE_TARGET
    assert destination.holders[0].ticket.source == block


def test_a_block_behind_a_fence_says_which_step_of_whom_it_waits_for(server: AdminServer) -> None:
    worker = server.worker()
    (one,) = worker.admit(list(range(6)))
    block = table_of(server, one.handle)[1]
    worker.launch({one.handle: 6}, complete=False)
    worker.finish(one.handle)
    answer = shown(server, block)
    assert answer.block.state == states.BLOCK_STATE_FENCED
    (wait,) = answer.holders[0].fence.waits
    assert (wait.executor, wait.step, wait.completed_step) == ("engine-0", 1, 0)
    worker.turn(completed_step=1)
    assert shown(server, block).block.state == states.BLOCK_STATE_FREE
    assert not shown(server, block).holders


def test_the_hash_of_what_a_block_held_before_is_not_shown_as_its_own(server: AdminServer) -> None:
    worker = server.worker()
    worker.cache(list(range(5)))
    block = listed(server, states=[states.BLOCK_STATE_CACHED])[0]
    assert shown(server, block).block.HasField("hash")
    server.on_loop(lambda: server.pool.evict([block]))
    answer = shown(server, block)
    assert answer.block.state == states.BLOCK_STATE_FREE
    assert not answer.block.HasField("hash")
    assert not answer.ids


def test_the_last_events_about_a_block_are_shown_up_to_the_limit(server: AdminServer) -> None:
    worker = server.worker()
    worker.cache(list(range(5)))
    block = listed(server, states=[states.BLOCK_STATE_CACHED])[0]
    kinds = [event_pb2.EventKind.Name(event.kind).removeprefix("EVENT_KIND_") for event in shown(server, block).events]
    assert kinds == ["ADMITTED", "SEALED", "FINISHED", "CACHED"]
    assert len(shown(server, block, event_limit=2).events) == 2
    assert not shown(server, block, event_limit=0).events


def test_blocks_are_found_by_what_they_are(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(9)))
    worker.cache(list(range(20, 29)))
    mine = table_of(server, handle)
    cached = listed(server, states=[states.BLOCK_STATE_CACHED])
    assert len(cached) == 2
    assert listed(server, handle=handle) == mine
    assert listed(server, min_references=1) == mine
    assert listed(server, max_references=0, indexed=True) == cached
    assert listed(server, tier=HOST) == list(range(8))
    assert listed(server, states=[states.BLOCK_STATE_NULL]) == [0]
    server.on_loop(lambda: server.pool.pin(cached[:1], 60.0))
    assert listed(server, pinned=True) == cached[:1]
    assert listed(server, pinned=False, states=[states.BLOCK_STATE_CACHED]) == cached[1:]


@pytest.mark.parametrize("digits", [1, 2, 7, 32])
def test_blocks_are_found_by_the_beginning_of_their_hash(server: AdminServer, digits: int) -> None:
    worker = server.worker()
    worker.cache(list(range(60)))
    hashes = {block: shown(server, block).block.hash for block in listed(server, indexed=True)}
    wanted = hashes[7][:digits]
    expected = [block for block, hash_ in hashes.items() if hash_.startswith(wanted)]
    assert listed(server, hash_prefix=wanted.upper()) == expected


def test_pages_of_blocks_name_each_once(server: AdminServer) -> None:
    server.worker()
    seen: list[tuple[int, int]] = []
    with server.stub() as stub:
        request = block_pb2.ListBlocksRequest(page_size=7)
        while True:
            page = stub.ListBlocks(request)
            seen += [(one.id.tier, one.id.block) for one in page.blocks]
            assert page.total == 40
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    assert seen == [(DEVICE, block) for block in range(32)] + [(HOST, block) for block in range(8)]


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({"hash_prefix": "xy"}, "filter.hash_prefix is 'xy', but must be at most 32 hexadecimal digits"),
        ({"states": [77]}, "filter.states is 77"),
        ({"tier": 9}, "filter.tier is 9, but must be TIER_DEVICE or TIER_HOST"),
    ],
)
def test_a_condition_that_cannot_be_is_named(server: AdminServer, conditions: dict[str, Any], text: str) -> None:
    server.worker()
    with Failing() as refused:
        listed(server, **conditions)
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert text in refused.text


def test_a_block_that_does_not_exist_is_not_found_and_the_limits_are_named(server: AdminServer) -> None:
    server.worker()
    with Failing() as missing:
        shown(server, 8, HOST)
    assert missing.code == grpc.StatusCode.NOT_FOUND
    assert missing.text == "there is no block 8 on the host tier: its blocks are 0..7"


# -- dumps -------------------------------------------------------------------------------------------------------------


def test_a_dump_of_an_empty_pool_is_one_answer_with_its_revision(server: AdminServer) -> None:
    server.worker()
    with server.stub() as stub:
        (answer,) = stub.DumpBlockTables(dump_pb2.DumpBlockTablesRequest())
    assert answer.version.revision > 0
    assert not answer.tables


def test_tables_of_a_thousand_sequences_come_whole_from_one_state_in_answers_below_a_mebibyte(tmp_path: Path) -> None:
    geometry = geometry_of(device_blocks=200_000, max_sequences=1000, max_length=1024, archive_bytes=4096)
    with AdminServer(tmp_path, geometry) as server:
        worker = server.worker()
        length = 700
        for start in range(0, 1000, 100):
            worker.prefill(*([number] + [7] * (length - 1) for number in range(start, start + 100)))
        expected = server.on_loop(
            lambda: {slot: server.pool.state.sequences.entries(slot).tolist() for slot in range(1000)}
        )
        tables: dict[int, list[int]] = {}
        with server.stub() as stub:
            answers = list(stub.DumpBlockTables(dump_pb2.DumpBlockTablesRequest()))
        for part in (part for answer in answers for part in answer.tables):
            table = tables.setdefault(part.handle & 0xFFFFF, [])
            assert part.first == len(table)
            table += part.blocks
        assert tables == expected
        assert len(answers) > 1
        assert max(answer.ByteSize() for answer in answers) < 1 << 20
        assert len({answer.version.revision for answer in answers}) == 1


def test_a_table_too_long_for_one_answer_goes_on_in_the_next(
    server: AdminServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = server.worker()
    short, long = worker.prefill([1] * 8, [2] * 60)
    monkeypatch.setattr(dump, "CHUNK_ENTRIES", dump.PART_COST + 6)
    with server.stub() as stub:
        answers = list(stub.DumpBlockTables(dump_pb2.DumpBlockTablesRequest()))
    parts = [(part.handle, part.first, len(part.blocks)) for answer in answers for part in answer.tables]
    assert parts == [(short, 0, 2), (long, 0, 6), (long, 6, 6), (long, 12, 3)]
    assert [block for answer in answers for part in answer.tables[:1] for block in part.blocks][2:] == table_of(
        server, long
    )


def test_blocks_in_the_host_tier_are_dumped_with_their_tier(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(8)))
    tickets = worker.turn(swap_out=np.array([handle])).tickets
    worker.turn(tickets_done=np.array([ticket.id for ticket in tickets]))
    with server.stub() as stub:
        (answer,) = stub.DumpBlockTables(dump_pb2.DumpBlockTablesRequest())
    (part,) = answer.tables
    assert list(part.tiers) == [HOST, HOST]
    assert list(part.blocks) == [ticket.destination for ticket in tickets]


# -- verify ------------------------------------------------------------------------------------------------------------


def verified(server: AdminServer, **request: Any) -> verify_pb2.VerifyInvariantsResponse:
    with server.stub() as stub:
        return stub.VerifyInvariants(verify_pb2.VerifyInvariantsRequest(**request))


def test_verify_says_what_it_has_checked(server: AdminServer) -> None:
    worker = server.worker()
    worker.prefill(list(range(9)))
    worker.cache(list(range(20, 29)))
    answer = verified(server)
    assert not answer.violations
    assert (answer.blocks, answer.sequences, answer.table_entries, answer.index_entries) == (40, 1, 3, 4)


def test_verify_names_the_broken_invariant_and_counts_beyond_the_limit(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(9)))
    first, second, _ = table_of(server, handle)

    def damage() -> None:
        refs, block_state = server.pool.state.blocks.refs, server.pool.state.blocks.state
        refs.flat[first] += 1
        refs.flat[second] += 1
        block_state.flat[9] = BlockState.NULL

    server.on_loop(damage)
    answer = verified(server, limit=1)
    assert len(answer.violations) == 1
    assert answer.violation_count >= 3
    broken = {violation.invariant for violation in verified(server).violations}
    assert {1, 2} <= broken
