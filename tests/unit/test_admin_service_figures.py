"""Figures, executors and sequences as operators get them, over a real port."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from blockmgr.core.messages import Child, Fork, Reservations
from pagehold.admin.v1 import executor_pb2, pool_pb2, sequence_pb2, stats_pb2
from pagehold.common.v1 import states_pb2 as states
from tests.admin_server import LEASE_SECONDS, AdminServer, Failing, geometry_of


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of(host_blocks=8, max_device_blocks=64)) as server:
        yield server


def stats_of(server: AdminServer) -> stats_pb2.PoolStats:
    with server.stub() as stub:
        answer = stub.GetPoolStats(stats_pb2.GetPoolStatsRequest())
    assert answer.version.manager_epoch == server.manager.epoch
    assert answer.version.revision == server.on_loop(lambda: server.pool.revision)
    return answer.stats


def counts(tier: stats_pb2.TierStats) -> dict[str, int]:
    return {states.BlockState.Name(count.state).removeprefix("BLOCK_STATE_"): count.blocks for count in tier.states}


def test_states_of_each_tier_add_up_to_its_blocks(server: AdminServer) -> None:
    worker = server.worker()
    worker.prefill(list(range(10)))
    worker.cache(list(range(100, 109)))
    device, host = stats_of(server).tiers
    assert (device.blocks, host.blocks) == (32, 8)
    assert counts(device) == {"NULL": 1, "OWNED": 1, "SEALED": 2, "CACHED": 2, "FREE": 26, "ABSENT": 32}
    assert counts(host) == {"FREE": 8}
    assert device.available == 28
    assert device.indexed == 4


def test_tokens_in_shared_blocks_count_once(server: AdminServer) -> None:
    worker = server.worker()
    (parent,) = worker.prefill(list(range(10)))
    worker.turn(forks=[Fork(parent, [Child(server.next_uuid()), Child(server.next_uuid())])])
    use = stats_of(server).sequences
    assert (use.live, use.tokens, use.table_entries, use.blocks_in_use) == (3, 30, 9, 3)
    assert use.blocks_saved_by_sharing == 6
    assert use.utilisation == pytest.approx(10 / (31 * 4))
    assert use.internal_fragmentation == pytest.approx(2 / 12)
    assert stats_of(server).tiers[0].shared == 3


def test_blocks_reserved_ahead_are_fragmentation(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(8)))
    worker.turn(reservations=Reservations(np.array([handle]), np.array([16]), np.array([0])))
    assert stats_of(server).sequences.internal_fragmentation == pytest.approx(0.5)


def test_what_was_found_in_the_cache_is_counted(server: AdminServer) -> None:
    worker = server.worker()
    worker.cache(list(range(12)))
    worker.prefill(list(range(13)))
    counted = stats_of(server).counters
    assert (counted.admitted, counted.finished, counted.prompt_tokens, counted.cached_prompt_tokens) == (2, 1, 25, 12)
    assert counted.turns == 7
    assert counted.seconds > 0


def test_a_fenced_block_and_its_reason_show_in_the_figures(server: AdminServer) -> None:
    worker = server.worker()
    (one,) = worker.admit(list(range(6)))
    worker.launch({one.handle: 6}, complete=False)
    worker.finish(one.handle)
    assert stats_of(server).tiers[0].fenced == 2


def test_pending_copies_are_counted_by_kind(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(8)))
    worker.turn(swap_out=np.array([handle]))
    stats = stats_of(server)
    assert [(count.kind, count.tickets) for count in stats.pending_tickets] == [(states.TICKET_KIND_SWAP_OUT, 2)]
    assert (stats.sequences.swapped, stats.sequences.leaving, stats.sequences.returning) == (1, 1, 0)


def test_figures_come_again_and_again_until_the_reader_goes(server: AdminServer) -> None:
    worker = server.worker()
    with server.stub() as stub:
        stream = stub.WatchPoolStats(stats_pb2.WatchPoolStatsRequest(interval_seconds=0.1))
        assert next(stream).stats.sequences.live == 0
        worker.prefill(list(range(4)))
        assert any(answer.stats.sequences.live == 1 for answer in stream)


def test_an_interval_outside_its_limits_is_refused_with_the_limits(server: AdminServer) -> None:
    server.worker()
    with server.stub() as stub, Failing() as refused:
        next(stub.WatchPoolStats(stats_pb2.WatchPoolStatsRequest(interval_seconds=0.01)))
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.text == "interval_seconds is 0.01, but must lie in 0.1..3600.0"


def test_every_pool_has_its_line(server: AdminServer) -> None:
    server.worker(pool="beta").prefill(list(range(4)))
    server.worker(pool="alpha")
    with server.stub() as stub:
        pools = stub.ListPools(pool_pb2.ListPoolsRequest()).pools
    assert [(one.name, one.sequences, one.executors, one.device_blocks) for one in pools] == [
        ("alpha", 0, 1, 32),
        ("beta", 1, 1, 32),
    ]


def test_executors_show_steps_blocks_processes_and_lease(server: AdminServer) -> None:
    worker = server.worker("a")
    idle = server.worker("b")
    (one,) = worker.admit(list(range(9)))
    worker.launch({one.handle: 9}, complete=False)
    with server.stub() as stub:
        first, second = stub.ListExecutors(executor_pb2.ListExecutorsRequest()).executors
    assert (first.name, first.epoch, first.state) == ("a", worker.epoch, states.EXECUTOR_STATE_LIVE)
    assert (first.launched_step, first.completed_step, first.last_number) == (1, 0, 2)
    assert (first.sequences, first.blocks) == (1, 3)
    assert [(one.pid, one.role, one.dead) for one in first.processes] == [(worker.process.pid, "engine", False)]
    assert 0 < first.lease_seconds_left <= LEASE_SECONDS
    assert not first.session_open
    assert (second.epoch, second.state) == (idle.epoch, states.EXECUTOR_STATE_STARTING)


def test_a_dead_executor_is_listed_while_its_sequences_wait(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(4)))
    worker.process.kill()
    worker.process.wait()
    server.on_loop(lambda: server.manager.bury(server.manager.members.by_epoch[worker.epoch]))
    with server.stub() as stub:
        (executor,) = stub.ListExecutors(executor_pb2.ListExecutorsRequest()).executors
    assert (executor.state, executor.sequences) == (states.EXECUTOR_STATE_DEAD, 1)
    assert [(one.pid, one.dead) for one in executor.processes] == [(worker.process.pid, True)]
    assert executor.died >= executor.registered
    assert not executor.HasField("lease_seconds_left")
    orphans = listed(server, states=[states.SEQUENCE_STATE_ORPHANED]).sequences
    assert [(one.handle, one.executor, one.deaths) for one in orphans] == [(handle, "engine-0", 1)]


# -- sequences ---------------------------------------------------------------------------------------------------------


def listed(server: AdminServer, **request: Any) -> sequence_pb2.ListSequencesResponse:
    with server.stub() as stub:
        return stub.ListSequences(sequence_pb2.ListSequencesRequest(**request))


def test_sequences_come_in_pages_lowest_slot_first(server: AdminServer) -> None:
    worker = server.worker()
    handles = worker.prefill(*([number] * 5 for number in range(7)))
    seen, token = [], ""
    while True:
        page = listed(server, page_size=3, page_token=token)
        assert page.total == 7
        seen.append([one.handle for one in page.sequences])
        token = page.next_page_token
        if not token:
            break
    assert seen == [handles[:3], handles[3:6], handles[6:]]


def test_sequences_are_found_by_executor_state_and_residency(server: AdminServer) -> None:
    a, b = server.worker("a"), server.worker("b")
    (mine,) = a.prefill(list(range(8)))
    (theirs,) = b.prefill(list(range(50, 58)))
    a.turn(swap_out=np.array([mine]))
    assert [one.handle for one in listed(server, executor="b").sequences] == [theirs]
    assert [one.handle for one in listed(server, residencies=[states.RESIDENCY_LEAVING]).sequences] == [mine]
    assert not listed(server, states=[states.SEQUENCE_STATE_ORPHANED]).sequences
    with Failing() as missing:
        listed(server, executor="nobody")
    assert missing.code == grpc.StatusCode.NOT_FOUND
    assert "there are ['a', 'b']" in missing.text


def shown(server: AdminServer, **request: Any) -> sequence_pb2.GetSequenceResponse:
    with server.stub() as stub:
        return stub.GetSequence(sequence_pb2.GetSequenceRequest(**request))


def test_a_sequence_shows_each_entry_of_its_table(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(10)))
    worker.turn(reservations=Reservations(np.array([handle]), np.array([14]), np.array([0])))
    answer = shown(server, handle=handle, with_ids=True)
    assert (answer.live.prompt, answer.live.tokens, answer.live.computed, answer.live.blocks) == (10, 10, 10, 4)
    assert list(answer.ids) == list(range(10))
    assert [(entry.tokens, entry.computed, entry.references) for entry in answer.table] == [
        (4, 4, 1),
        (4, 4, 1),
        (2, 2, 1),
        (0, 0, 1),
    ]
    assert [entry.HasField("hash") for entry in answer.table] == [True, True, False, False]


def test_a_sequence_is_found_by_its_uuid_while_alive_and_when_finished(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(10)))
    uuid = shown(server, handle=handle).live.uuid
    assert shown(server, uuid=uuid.upper()).live.handle == handle
    worker.finish(handle)
    finished = shown(server, uuid=uuid, with_ids=True)
    assert finished.finished.reason == states.FINISH_REASON_STOP
    assert (finished.finished.prompt, finished.finished.tokens, list(finished.ids)) == (10, 10, list(range(10)))
    assert not finished.table


def test_copies_that_a_sequence_waits_for_are_shown_with_it(server: AdminServer) -> None:
    worker = server.worker()
    (handle,) = worker.prefill(list(range(8)))
    worker.turn(swap_out=np.array([handle]))
    tickets = shown(server, handle=handle).tickets
    assert [(one.kind, one.index, one.executor) for one in tickets] == [
        (states.TICKET_KIND_SWAP_OUT, 0, "engine-0"),
        (states.TICKET_KIND_SWAP_OUT, 1, "engine-0"),
    ]


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        ({"handle": 77}, grpc.StatusCode.NOT_FOUND, "no sequence has the handle 77"),
        ({"uuid": "0" * 32}, grpc.StatusCode.NOT_FOUND, "nor had one that is still kept"),
        ({"uuid": "xyz"}, grpc.StatusCode.INVALID_ARGUMENT, "uuid is 'xyz', but must be a UUID"),
        ({}, grpc.StatusCode.INVALID_ARGUMENT, "key is absent, but a handle or a uuid must be given"),
    ],
)
def test_a_sequence_that_is_not_known_is_named(
    server: AdminServer, request_: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    server.worker()
    with Failing() as missing:
        shown(server, **request_)
    assert missing.code == code
    assert text in missing.text
