"""Requests with several outputs, in an engine whose device and manager do as told."""

import time
from typing import Any

import pytest

from blockmgr.core.geometry import handle_of
from blockmgr.core.messages import Message, Reply, Want
from blockmgr.core.states import FinishReason, Refusal, Residency
from executor.engine import intake
from executor.engine.entrance import first_want, spare_blocks, take_returning, take_waiting
from executor.engine.family import Families
from executor.engine.news import Accepted, Ended, Refused, Unknown
from executor.engine.orders import Cancel, Follow, Start
from executor.engine.pace import Pace
from executor.engine.preemption import Preemption, Way
from executor.engine.request import Limits, Request, RequestRefused
from executor.engine.room import blocks_back, blocks_of
from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting
from executor.engine.work import Work
from executor.engine.worklist import list_work
from executor.outputs import seed_of, uuid_of
from pagehold.engine.v1 import submit_pb2
from tests.unit.engine.fakes import Bench
from tests.unit.engine.sequences import BLOCK, LIMITS, decoding, request

NOTHING = Reply(1)
"""No block is to be had, nor about to be."""


def several(prompt: int = 20, max_tokens: int = 10, outputs: int = 3, arrived: float = 1.0, **more: Any) -> Request:
    made = request(prompt, max_tokens, seed=7, **more)
    made.kept.outputs, made.kept.arrived = outputs, arrived
    return made


class FamilyBench(Bench):
    """An engine that was asked for one request with several outputs."""

    def __init__(self, asked: Request, **settings: int) -> None:
        super().__init__(**settings)
        self.asked = asked
        self.inbox.put(Start(asked, 1))
        self.exchange()

    @property
    def family(self) -> list[Sequence]:
        return [self.work.by_uuid[uuid] for uuid in self.uuids if uuid in self.work.by_uuid]

    @property
    def uuids(self) -> list[bytes]:
        return [uuid_of(self.asked.uuid, output) for output in range(self.asked.outputs)]

    def told(self, kind: type) -> list[bytes]:
        return [one.uuid for one in self.news if isinstance(one, kind)]

    def until_fork(self) -> Message:
        """Compute until a fork is asked for. Returns the turn that does."""
        for _ in range(20):
            if self.session.turns and self.session.turns[-1].forks:
                return self.session.turns[-1]
            while self.device.finish():
                pass
            self.session.answer()
            self.go()
        raise AssertionError("no fork is asked for")

    def answer(self, **more: Any) -> None:
        self.session.answer(**more)
        self.go()


def test_the_prompt_is_computed_up_to_its_last_token_which_waits_for_the_fork() -> None:
    bench = FamilyBench(several(20))
    (step,) = bench.device.steps
    assert (step.counts.tolist(), step.sampling.rows.tolist()) == ([19], [])
    turn = bench.until_fork()
    (fork,) = turn.forks
    assert turn.progress.computed.tolist()[-1] == 19 or bench.family[0].reported == (19, 19)
    assert [child.uuid for child in fork.children] == bench.uuids[1:]
    bench.go(3)
    assert len(bench.device.steps) == 1, "nothing is launched before it is answered"


def test_each_output_feeds_the_last_token_itself_and_samples_with_its_own_seed() -> None:
    bench = FamilyBench(several(20))
    bench.until_fork()
    bench.answer()
    assert len(bench.device.steps) == 1, "nothing is written into what is shared before the manager has looked at it"
    assert sorted(bench.session.turns[-1].reservations.handles) == sorted(bench.work.sequences)
    bench.answer()
    step = bench.device.steps[1]
    assert (step.starts.tolist(), step.counts.tolist()) == ([19] * 3, [1] * 3)
    assert step.ids.tolist() == [19] * 3
    signed = [seed if seed < 1 << 63 else seed - (1 << 64) for seed in (seed_of(7, output) for output in range(3))]
    assert step.sampling.seeds.tolist() == signed
    assert step.sampling.positions.tolist() == [20] * 3
    assert bench.told(Accepted) == bench.uuids


def test_a_prompt_of_one_token_is_forked_before_anything_is_computed() -> None:
    bench = FamilyBench(several(1))
    assert bench.session.turns[-1].forks
    assert not bench.device.steps
    bench.answer()
    bench.answer()
    assert bench.device.steps[0].counts.tolist() == [1, 1, 1]


def test_a_fork_that_is_refused_for_now_is_asked_for_again() -> None:
    bench = FamilyBench(several(20))
    bench.until_fork()
    bench.answer(forks=Refusal.NO_SLOTS)
    assert bench.work.waits_for_manager
    assert len(bench.device.steps) == 1
    refused, deadline = len(bench.session.turns), time.monotonic() + 120
    while len(bench.session.turns) == refused and time.monotonic() < deadline:
        bench.go()
    assert bench.session.turns[-1].forks
    bench.answer()
    assert len(bench.family) == 3
    assert not bench.work.families.wait


def test_a_fork_that_an_earlier_life_had_and_whose_others_have_ended_leaves_the_first_alone() -> None:
    bench = FamilyBench(several(20))
    bench.until_fork()
    bench.answer(forks=Refusal.DUPLICATE)
    bench.answer()
    assert bench.device.steps[1].counts.tolist() == [1]
    assert len(bench.family) == 1


@pytest.mark.parametrize("asked", [False, True])
def test_a_cancel_before_the_fork_is_answered_ends_those_that_are_still_to_come(asked: bool) -> None:
    bench = FamilyBench(several(20))
    if asked:
        bench.until_fork()
    bench.inbox.put(Cancel(bench.asked.uuid))
    for _ in range(4):
        while bench.device.finish():
            pass
        bench.answer()
    assert sorted(bench.told(Ended)) == sorted(bench.uuids)
    ends = [one for one in bench.news if isinstance(one, Ended)]
    assert {(one.reason, len(one.ids)) for one in ends} == {(FinishReason.CANCELLED, 20)}
    assert not bench.work.sequences
    assert not list(bench.work.families)


def test_who_cancels_one_output_cancels_all() -> None:
    bench = FamilyBench(several(20))
    bench.until_fork()
    bench.answer()
    bench.answer(cancel=[bench.family[1].handle])
    assert {one.ending for one in bench.family} == {FinishReason.CANCELLED}


def test_an_output_ends_by_itself_and_the_others_go_on() -> None:
    bench = FamilyBench(several(20, end_ids=[2]))
    bench.until_fork()
    bench.answer()
    bench.answer()
    bench.device.finish()  # which samples 1, 2, 3
    bench.go()
    assert [one.ending for one in bench.family] == [None, FinishReason.STOP, None]
    listed = list_work(bench.work, None)
    assert [(work.uuid, work.prompt_tokens) for work in listed.work] == [(bench.asked.uuid, 20)]
    assert listed.total == 1


def test_who_follows_an_output_that_is_still_to_come_hears_nothing_until_it_is_there() -> None:
    bench = FamilyBench(several(20))
    stranger = uuid_of(bench.asked.uuid, 3)
    for uuid in (bench.uuids[2], stranger):
        bench.inbox.put(Follow(uuid, 9))
    bench.go()
    assert bench.told(Unknown) == [stranger]
    bench.until_fork()
    bench.answer()
    assert bench.uuids[2] in bench.told(Accepted)


def test_outputs_are_followed_while_their_request_still_waits() -> None:
    work = Work(LIMITS, 8, 100)
    asked = several()
    work.waiting.add(Waiting(asked))
    intake.follow(work, uuid_of(asked.uuid, 2), 1)
    assert work.news == []
    intake.follow(work, uuid_of(asked.uuid, 3), 1)
    assert [type(one) for one in work.news] == [Unknown]


def test_who_follows_another_output_of_a_request_that_is_turned_away_hears_that_it_is_not_here() -> None:
    work = Work(LIMITS, 8, 100)
    asked = several()
    others = [Unknown(uuid_of(asked.uuid, output)) for output in range(1, asked.outputs)]
    work.waiting.add(Waiting(asked))
    intake.follow(work, others[-1].uuid, 1)
    assert work.news == []
    intake.cancel(work, asked.uuid)
    assert work.news == [Refused(asked.uuid, by=submit_pb2.REFUSED_BY_CANCEL), *others]


def test_who_asks_again_for_a_request_that_has_ended_hears_that_no_other_output_of_it_is_here() -> None:
    bench = Bench()
    asked = several(20, outputs=3)
    others = [uuid_of(asked.uuid, output) for output in (1, 2)]
    bench.inbox.put(Start(asked, 1))
    for uuid in others:
        bench.inbox.put(Follow(uuid, 1))
    bench.go()
    assert bench.news == []
    bench.session.refuse(Refusal.DUPLICATE)
    bench.go()
    assert bench.news == [Refused(asked.uuid, Refusal.DUPLICATE, needed=1), *map(Unknown, others)]


def test_who_asks_again_for_a_request_whose_first_output_has_ended_goes_on_following_the_others() -> None:
    bench = Bench()
    asked = several(20, outputs=3)
    bench.work.take_up(Sequence(asked.sibling(1), handle_of(1, 5), asked.prompt.tolist(), recorded=20))
    bench.work.families.settle()
    bench.inbox.put(Start(asked, 1))
    bench.go()
    bench.session.refuse(Refusal.DUPLICATE)
    bench.go()
    told = [one for one in bench.news if isinstance(one, Refused | Unknown)]
    assert told == [Refused(asked.uuid, Refusal.DUPLICATE, needed=1), Unknown(uuid_of(asked.uuid, 2))]


def test_a_request_waits_until_there_are_places_for_all_its_outputs() -> None:
    bench = FamilyBench(several(20, outputs=3), max_running=6)
    assert bench.work.places == 3
    four, two = several(20, outputs=4, arrived=2.0), several(20, outputs=2, arrived=3.0)
    for one in (four, two):
        bench.work.waiting.add(Waiting(one))
    taken = take_waiting(bench.work, 1000, 1000)
    assert taken is not None
    assert taken.request is two
    assert bench.work.places == 1


def test_more_outputs_than_may_run_at_once_are_refused() -> None:
    bench = Bench(max_running=4)
    asked = several(outputs=5)
    bench.inbox.put(Start(asked, 1))
    bench.go()
    (refused,) = [one for one in bench.news if isinstance(one, Refused)]
    assert refused.detail == "outputs is 5; at most 4 are computed at once"


def test_what_outputs_share_counts_once() -> None:
    asked = several(33, 20, outputs=4)
    # Two blocks are shared; each needs two of its own at the longest: 52 positions.
    assert asked.blocks(LIMITS) == 2 + 4 * 2
    assert blocks_of(asked, LIMITS) == 2 + 4 * 2
    assert blocks_of(request(33, 20), LIMITS) == 4
    asked.check(LIMITS)
    with pytest.raises(RequestRefused, match="26 blocks are needed"):
        several(33, 20, outputs=12).check(LIMITS)


def test_a_request_whose_others_would_be_too_large_to_keep_is_refused() -> None:
    asked = several()
    size = asked.sibling(1).kept.ByteSize()
    asked.check(Limits(1000, 100, 20, BLOCK, request_bytes=size))
    with pytest.raises(RequestRefused, match=f"request has {size} bytes for each of its outputs; at most {size - 1}"):
        asked.check(Limits(1000, 100, 20, BLOCK, request_bytes=size - 1))


def test_only_the_first_output_is_asked_for() -> None:
    with pytest.raises(RequestRefused, match="output is 1"):
        several().sibling(1).check(LIMITS)


# -- taken up ------------------------------------------------------------------------------------------------------------


def taken_up(asked: Request, *outputs: int, tokens: int = 0, launched: int = 0) -> list[Sequence]:
    """Outputs as an earlier life has left them."""
    families, found = Families(), []
    for output in outputs:
        one = asked if not output else asked.sibling(output)
        prompt = one.prompt.tolist()
        found.append(Sequence(one, handle_of(1, output), prompt + [1] * tokens, launched=launched, computed=launched))
        families.add(found[-1])
    families.settle()
    return found


@pytest.mark.parametrize(("launched", "tokens", "limit"), [(0, 0, 19), (19, 0, 19), (20, 0, 29), (0, 1, 29)])
def test_a_first_output_that_is_alone_is_forked_unless_it_is_past_that(launched: int, tokens: int, limit: int) -> None:
    (first,) = taken_up(several(20), 0, tokens=tokens, launched=launched)
    assert first.limit == limit


def test_outputs_that_are_there_go_on_with_or_without_the_first() -> None:
    for outputs in ((0, 2), (2,), (2, 1), (1, 0, 2)):
        assert {one.limit for one in taken_up(several(20), *outputs, launched=3)} == {29}


# -- making room ---------------------------------------------------------------------------------------------------------


def forked(work: Work, asked: Request, tokens: int = 1, blocks: int = 2, slot: int = 0) -> list[Sequence]:
    """All outputs of a request, as they decode."""
    found = []
    for output in range(asked.outputs):
        one = asked if not output else asked.sibling(output)
        known = one.prompt.tolist() + [1] * tokens
        at = len(known) - 1
        made = Sequence(one, handle_of(1, slot + output), known, launched=at, computed=at, recorded=len(known))
        made.reported = (at, at)
        made.update(0, list(range(1, blocks + 1)))
        work.add(made)
        found.append(made)
    for family in work.families:
        family.settle()
    for made in found:
        made.frozen = False
    return found


def make_room(work: Work, first: Want) -> list[Sequence]:
    return work.preemption.make_room(work.sequences.values(), first, NOTHING, Pace())


def want_of(asked: Request) -> Want:
    return Want(asked.root, asked.kept.priority, asked.kept.arrived, 1, running=True)


def test_the_outputs_of_a_request_go_together_and_never_for_one_another() -> None:
    work = Work(LIMITS, 8, 100)
    early, late = forked(work, several(arrived=1.0)), forked(work, several(arrived=2.0), slot=3)
    assert make_room(work, want_of(late[1].request)) == []
    assert make_room(work, want_of(early[2].request)) == late
    assert all(one.parked for one in late)
    assert not any(one.parked for one in early)


def test_they_go_to_the_host_tier_one_after_the_other_and_give_up_their_blocks_at_once() -> None:
    for way, at_once in ((Way.SWAP, 1), (Way.RECOMPUTE, 3)):
        work = Work(LIMITS, 8, 100, Preemption(way, 100))
        kin = forked(work, several())
        assert make_room(work, Want(bytes(16), 1, 0.0, 1, running=True)) == kin
        departing = work.preemption.departing(way)
        assert departing == kin[:at_once]
    work = Work(LIMITS, 8, 100, Preemption(Way.SWAP, 100))
    kin = forked(work, several())
    make_room(work, Want(bytes(16), 1, 0.0, 1, running=True))
    work.preemption.gone(kin[0], Way.SWAP, {1})
    assert work.preemption.departing(Way.SWAP) == []
    work.preemption.moved(kin[0])
    assert work.preemption.departing(Way.SWAP) == [kin[1]]


def test_those_of_a_request_that_leaves_nothing_to_be_found_are_computed_again() -> None:
    asked = several()
    asked.kept.no_store = True
    work = Work(LIMITS, 8, 100, Preemption(Way.SWAP, 100))
    forked(work, asked)
    make_room(work, Want(bytes(16), 1, 0.0, 1, running=True))
    assert {way for _, way in work.preemption.leaving.values()} == {Way.RECOMPUTE}


def away(work: Work, kin: list[Sequence]) -> None:
    for one in kin:
        one.parked = True
        one.leave(Residency.RELEASED)
        work.preemption.away[one.handle] = one


def test_they_come_back_one_after_the_other_once_there_is_room_for_all() -> None:
    work = Work(LIMITS, 8, 100)
    kin = forked(work, several(33, 20), blocks=3)
    other = decoding(7, blocks=2)
    work.add(other)
    away(work, kin)
    needed = blocks_back(kin, LIMITS)
    assert needed == 2 + 3 * 2
    work.free_blocks = needed - 1
    assert take_returning(work) == []
    work.free_blocks = needed
    assert take_returning(work) == [kin[0]]
    work.preemption.returning(kin[0], set())
    kin[0].update(0, [1, 2, 3])
    assert take_returning(work) == [], "what they share is still to be computed"
    kin[0].launched = kin[0].computed = 33
    work.free_blocks = 2
    assert spare_blocks(work) < 0, "what the others need is promised to nobody else"
    assert take_returning(work) == [kin[1]]


def test_what_is_only_partly_back_wants_the_rest_as_one_that_runs_does() -> None:
    work = Work(LIMITS, 8, 100)
    kin = forked(work, several(33, 20), blocks=3)
    away(work, kin[1:])
    work.free_blocks = 1
    want = first_want(work)
    assert want is not None
    assert (want.uuid, want.running, want.blocks) == (kin[0].request.uuid, True, 2)
    work.free_blocks = 2
    want = first_want(work)
    assert want is not None
    assert not want.running
