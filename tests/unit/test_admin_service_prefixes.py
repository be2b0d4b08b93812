"""The prefix cache as operators see it: the tree, why a prompt hits or not, pins and evictions."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from blockmgr.core.events import EventKind
from blockmgr.core.prefix import root_of
from blockmgr.core.states import SequenceFlags
from pagehold.admin.v1 import block_pb2, evict_pb2, pin_pb2, prefix_pb2
from pagehold.admin.v1.prefix_pb2 import PrefixOutcome
from pagehold.common.v1 import states_pb2 as states
from tests.admin_server import AdminServer, Failing, Worker, geometry_of

PROMPT = list(range(16))
"""Four full blocks; the last token is always computed, so at most three are hits."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of(host_blocks=8)) as server:
        yield server


@pytest.fixture
def worker(server: AdminServer) -> Worker:
    return server.worker()


def walked(server: AdminServer, **request: Any) -> list[prefix_pb2.PrefixNode]:
    with server.stub() as stub:
        answers = list(stub.WalkPrefixes(prefix_pb2.WalkPrefixesRequest(**request)))
    assert len({answer.version.revision for answer in answers}) == 1
    return [node for answer in answers for node in answer.nodes]


def explained(server: AdminServer, ids: list[int], **prompt: Any) -> prefix_pb2.LookupPrefixResponse:
    with server.stub() as stub:
        asked = prefix_pb2.Prompt(ids=ids, **prompt)
        return stub.LookupPrefix(prefix_pb2.LookupPrefixRequest(prompt=asked))


def outcomes(answer: prefix_pb2.LookupPrefixResponse) -> list[str]:
    return [PrefixOutcome.Name(line.outcome).removeprefix("PREFIX_OUTCOME_").lower() for line in answer.blocks]


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_a_walk_names_each_block_before_its_descendants_and_these_before_its_sibling(
    server: AdminServer, worker: Worker
) -> None:
    worker.cache([*PROMPT, 1])
    worker.cache([*PROMPT[:8], 90, 91, 92, 93, 94])
    nodes = walked(server)
    assert sorted(node.depth for node in nodes) == [0, 1, 2, 2, 3]
    for before, node in pairwise(nodes):
        assert node.depth <= before.depth + 1
    path: list[prefix_pb2.PrefixNode] = []
    for node in nodes:
        del path[node.depth :]
        if path:
            assert node.parent == path[-1].hash
        path.append(node)
    branching = next(node for node in nodes if node.depth == 1)
    assert branching.children == 2
    assert list(nodes[0].ids) == PROMPT[:4]


def test_a_walk_can_be_cut_by_depth_number_and_place(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    everything = walked(server)
    assert len(walked(server, max_depth=2)) == 2
    assert [node.hash for node in walked(server, below=everything[1].hash)] == [node.hash for node in everything[2:]]
    root = root_of(server.on_loop(lambda: server.pool.state.content), "", b"").hex()
    assert len(walked(server, below=root)) == 4
    assert not walked(server, with_ids=False)[0].ids
    with server.stub() as stub:
        (answer,) = stub.WalkPrefixes(prefix_pb2.WalkPrefixesRequest(limit=3))
    assert answer.truncated
    assert len(answer.nodes) == 3
    with server.stub() as stub:
        (answer,) = stub.WalkPrefixes(prefix_pb2.WalkPrefixesRequest(limit=4))
    assert not answer.truncated


def test_a_walk_below_a_hash_that_nothing_has_is_not_found(server: AdminServer, worker: Worker) -> None:
    worker.cache(PROMPT)
    with Failing() as missing:
        walked(server, below="f" * 32)
    assert missing.code == grpc.StatusCode.NOT_FOUND
    with Failing() as wrong:
        walked(server, below="f")
    assert wrong.text == "below is 'f', but must have 32 hexadecimal digits"


def test_a_block_whose_parent_was_evicted_is_detached(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    first = walked(server)[0].id.block
    server.on_loop(lambda: server.pool.evict([first]))
    nodes = walked(server)
    assert [(node.depth, node.detached) for node in nodes] == [(0, True), (1, False), (2, False)]


def test_equal_blocks_of_two_tiers_are_two_nodes_side_by_side_with_one_set_of_descendants(
    server: AdminServer, worker: Worker
) -> None:
    worker.cache([*PROMPT[:12], 1])
    tickets = worker.turn(demote=8).tickets
    worker.turn(tickets_done=np.array([ticket.id for ticket in tickets]))
    nodes = walked(server)
    assert [(node.depth, node.id.tier) for node in nodes] == [
        (depth, tier) for depth in range(3) for tier in (states.TIER_DEVICE, states.TIER_HOST)
    ]


def test_an_empty_cache_is_an_answer_without_nodes(server: AdminServer, worker: Worker) -> None:
    assert not walked(server)


# -- why a prompt hits, and why not ------------------------------------------------------------------------------------


def test_what_is_cached_is_a_hit_but_for_the_block_of_the_last_token(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    answer = explained(server, PROMPT)
    assert outcomes(answer) == ["hit", "hit", "hit", "always_computed"]
    assert answer.cached_tokens == 12
    assert outcomes(explained(server, [*PROMPT, 1])) == ["hit"] * 4 + ["always_computed"]


def test_what_the_lookup_promises_is_what_an_admission_gets(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    promised = explained(server, PROMPT).cached_tokens
    (admitted,) = worker.admit(PROMPT)
    assert admitted.cached == promised == 12


def test_a_lookup_touches_nothing(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    worker.cache([50] * 9)
    before = server.on_loop(lambda: (server.pool.revision, server.pool.coldest()))
    explained(server, PROMPT)
    assert server.on_loop(lambda: (server.pool.revision, server.pool.coldest())) == before


def test_a_prompt_never_seen_is_said_to_be(server: AdminServer, worker: Worker) -> None:
    assert outcomes(explained(server, PROMPT)) == ["never_seen"] * 3 + ["always_computed"]


def test_another_salt_or_adapter_finds_nothing_of_it(server: AdminServer, worker: Worker) -> None:
    worker.finish(*worker.prefill([*PROMPT, 1], salt=b"tenant"))
    assert outcomes(explained(server, PROMPT))[0] == "never_seen"
    assert outcomes(explained(server, PROMPT, adapter="tenant"))[0] == "never_seen"
    assert outcomes(explained(server, PROMPT, cache_salt=b"tenant"))[0] == "hit"


def test_an_evicted_block_is_told_from_one_never_seen_with_the_time(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    coldest = server.on_loop(server.pool.coldest)
    server.on_loop(server.pool.evict, coldest[:2])
    answer = explained(server, [*PROMPT[:12], 70, 71, 72, 73, 74])
    assert outcomes(answer) == ["hit", "hit", "evicted", "never_seen", "always_computed"]
    evicted_at = server.on_loop(lambda: server.pool.state.events.kept()[-1].time)
    assert answer.blocks[2].evicted == evicted_at


def test_what_was_freed_without_having_been_on_offer_was_never_seen(server: AdminServer, worker: Worker) -> None:
    worker.finish(*worker.prefill([*PROMPT, 1], flags=SequenceFlags.NO_STORE))
    assert outcomes(explained(server, PROMPT))[0] == "never_seen"


def test_a_cached_block_behind_a_missing_one_cannot_be_reached(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    second = walked(server)[1].id.block
    server.on_loop(lambda: server.pool.evict([second]))
    answer = explained(server, PROMPT)
    assert outcomes(answer) == ["hit", "evicted", "unreachable", "always_computed"]
    assert answer.cached_tokens == 4


def test_a_block_being_filled_names_who_fills_it_and_one_to_come_who_is_expected_to(
    server: AdminServer, worker: Worker
) -> None:
    (one,) = worker.admit(PROMPT)
    worker.launch({one.handle: 8}, complete=False)
    answer = explained(server, PROMPT)
    assert outcomes(answer) == ["being_filled", "being_filled", "expected", "always_computed"]
    assert {(line.handle, line.executor) for line in answer.blocks[:3]} == {(one.handle, "engine-0")}


def test_a_block_in_the_host_tier_is_a_hit_there(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    tickets = worker.turn(demote=8).tickets
    worker.turn(tickets_done=np.array([ticket.id for ticket in tickets]))
    server.on_loop(lambda: server.pool.evict(server.pool.coldest()))
    answer = explained(server, PROMPT)
    assert outcomes(answer) == ["host_hit"] * 3 + ["always_computed"]
    assert answer.blocks[0].id.tier == states.TIER_HOST
    assert answer.cached_tokens == 12


def test_a_hash_with_other_tokens_behind_it_is_no_hit(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    first = walked(server)[0].id.block

    def collide() -> None:
        server.pool.state.blocks.tokens.row(first)[0] = 99

    server.on_loop(collide)
    assert outcomes(explained(server, PROMPT)) == ["other_tokens", "unreachable", "unreachable", "always_computed"]


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], "prompt.ids is empty, but at least one token id must be given"),
        ([1, -2], "prompt.ids is -2, but token ids must not be negative"),
        ([1] * 129, "prompt.ids is 129 tokens long, but a sequence of this pool has at most 128"),
    ],
)
def test_a_prompt_that_cannot_be_is_named(server: AdminServer, worker: Worker, ids: list[int], text: str) -> None:
    with Failing() as refused:
        explained(server, ids)
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.text == text


# -- pins --------------------------------------------------------------------------------------------------------------


def pinned(server: AdminServer, **request: Any) -> pin_pb2.PinResponse:
    with server.stub() as stub:
        return stub.Pin(pin_pb2.PinRequest(**request))


def flush(server: AdminServer, **request: Any) -> evict_pb2.FlushResponse:
    with server.stub() as stub:
        return stub.Flush(evict_pb2.FlushRequest(**request))


def test_a_pinned_prompt_stays_whole_when_everything_is_flushed(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    worker.cache([50] * 9)
    answer = pinned(server, prompt=prefix_pb2.Prompt(ids=[*PROMPT, 77]), label="system", ttl_seconds=60)
    assert answer.pinned_tokens == 16
    assert [id_.block for id_ in answer.pin.blocks] == [node.id.block for node in walked(server) if node.pinned]
    flushed = flush(server)
    assert (flushed.device_blocks, flushed.kept) == (2, 4)
    assert explained(server, PROMPT).cached_tokens == 12


def test_a_pin_ends_by_itself_and_its_blocks_may_go(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    pin = pinned(server, prompt=prefix_pb2.Prompt(ids=PROMPT), ttl_seconds=60).pin

    def let_time_pass() -> None:
        server.pool.state.clock.now = lambda: pin.expires + 1
        server.pool.tick()

    server.on_loop(let_time_pass)
    with server.stub() as stub:
        assert not stub.ListPins(pin_pb2.ListPinsRequest()).pins
    assert flush(server).device_blocks == 4


def test_a_block_is_pinned_only_with_the_generation_that_was_seen(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    block = walked(server)[0].id
    seen = server.on_loop(lambda: server.pool.state.blocks.generation.get(block.block))
    with Failing() as changed:
        pinned(server, block=pin_pb2.BlockPin(id=block, expected_generation=seen + 1))
    assert changed.code == grpc.StatusCode.ABORTED
    assert changed.text == f"generation of block {block.block} is {seen}, but {seen + 1} was expected"
    answer = pinned(server, block=pin_pb2.BlockPin(id=block, expected_generation=seen))
    assert [id_.block for id_ in answer.pin.blocks] == [block.block]


def test_what_cannot_be_pinned_is_refused_with_the_reason(server: AdminServer, worker: Worker) -> None:
    with Failing() as nothing:
        pinned(server, prompt=prefix_pb2.Prompt(ids=PROMPT))
    assert nothing.code == grpc.StatusCode.FAILED_PRECONDITION
    assert "nothing of the prompt is cached" in nothing.text
    with Failing() as free:
        pinned(server, block=pin_pb2.BlockPin(id=block_pb2.BlockId(block=3)))
    assert free.code == grpc.StatusCode.FAILED_PRECONDITION
    with Failing() as forever:
        pinned(server, block=pin_pb2.BlockPin(id=block_pb2.BlockId(block=3)), ttl_seconds=0)
    assert forever.text == "ttl_seconds is 0.0, but must be more than 0 and at most 2592000"


def test_pins_end_by_number_or_all_of_a_label(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    first, second, third = (node.id for node in walked(server)[:3])
    number = pinned(server, block=pin_pb2.BlockPin(id=first)).pin.id
    for id_ in (second, third):
        pinned(server, block=pin_pb2.BlockPin(id=id_), label="shared")
    with server.stub() as stub:
        assert [pin.id for pin in stub.Unpin(pin_pb2.UnpinRequest(pin_id=number)).pins] == [number]
        assert len(stub.Unpin(pin_pb2.UnpinRequest(label="shared")).pins) == 2
        with Failing() as missing:
            stub.Unpin(pin_pb2.UnpinRequest(pin_id=number))
    assert missing.code == grpc.StatusCode.NOT_FOUND
    assert missing.text == f"no pin has the id {number}; there are: none"


# -- evictions ---------------------------------------------------------------------------------------------------------


def evicted(server: AdminServer, **request: Any) -> evict_pb2.EvictResponse:
    with server.stub() as stub:
        return stub.Evict(evict_pb2.EvictRequest(**request))


def test_the_coldest_blocks_go_first_and_a_dry_run_takes_nothing(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    coldest = server.on_loop(server.pool.coldest)
    dry = evicted(server, count=2, dry_run=True)
    assert [id_.block for id_ in dry.evicted] == coldest[:2]
    assert server.on_loop(server.pool.coldest) == coldest
    assert [id_.block for id_ in evicted(server, count=2).evicted] == coldest[:2]
    assert server.on_loop(server.pool.coldest) == coldest[2:]


def test_named_blocks_that_stay_say_why(server: AdminServer, worker: Worker) -> None:
    (handle,) = worker.prefill([*PROMPT, 1])
    worker.cache([50] * 9)
    used = server.on_loop(lambda: server.pool.state.sequences.entries(handle & 0xFFFFF).tolist())[0]
    cached = server.on_loop(server.pool.coldest)
    pin = server.on_loop(server.pool.pin, cached[:1], 60.0)
    free = server.on_loop(lambda: int(server.pool.state.blocks.tier(False).free_list()[0]))
    named = [block_pb2.BlockId(block=block) for block in (used, *cached, free, free)]
    answer = evicted(server, blocks=evict_pb2.BlockList(ids=named))
    assert [id_.block for id_ in answer.evicted] == cached[1:]
    assert {one.id.block: one.detail for one in answer.kept} == {
        used: "1 table entries name it",
        cached[0]: f"pinned by [{pin}]",
        free: "it is free, not cached",
    }


def test_one_tier_is_flushed_and_the_other_left(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    tickets = worker.turn(demote=8).tickets
    worker.turn(tickets_done=np.array([ticket.id for ticket in tickets]))
    dry = flush(server, dry_run=True)
    assert (dry.device_blocks, dry.host_blocks, dry.kept) == (4, 4, 0)
    only = flush(server, tier=states.TIER_HOST)
    assert (only.device_blocks, only.host_blocks) == (0, 4)
    assert flush(server).device_blocks == 4


def test_a_pool_flushed_without_sequences_is_free_but_for_the_null_block(server: AdminServer, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    flush(server)
    assert server.on_loop(lambda: server.pool.state.blocks.tier(False).free) == 31


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "what is absent, but blocks or a count must be given"),
        ({"count": 0}, "count is 0, but must lie in 1..100000"),
        ({"count": 1, "tier": 9}, "tier is 9, but must be TIER_DEVICE or TIER_HOST"),
    ],
)
def test_an_eviction_that_cannot_be_is_named(
    server: AdminServer, worker: Worker, request_: dict[str, Any], text: str
) -> None:
    with Failing() as refused:
        evicted(server, **request_)
    assert (refused.code, refused.text) == (grpc.StatusCode.INVALID_ARGUMENT, text)


def test_a_flush_of_many_blocks_is_done_in_turns_and_is_whole(tmp_path: Path) -> None:
    with AdminServer(tmp_path, geometry_of(device_blocks=3000, max_length=8192)) as server:
        server.worker().cache([1] * 8000)
        assert flush(server).device_blocks == 2000
        events = server.on_loop(lambda: server.pool.state.events.kept())
        assert [len(event.blocks) for event in events if event.kind == EventKind.EVICTED] == [500] * 4
