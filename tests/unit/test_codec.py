"""Turns and replies keep their meaning on the wire, and what cannot be right is refused by name."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import (
    NONE,
    Admission,
    Admitted,
    Appends,
    Child,
    Finished,
    Fork,
    Forked,
    LookedAgain,
    Message,
    Progress,
    Reorder,
    Reply,
    Reservations,
    Swapped,
    TableUpdate,
    Ticket,
    Want,
)
from blockmgr.core.pool import Pool
from blockmgr.core.states import FinishReason, Refusal, SequenceFlags, TicketKind
from blockmgr.service.codec import decode_reply, decode_turn, encode_reply, encode_turn, enums, replies, turns
from blockmgr.service.codec.packing import pack, unpack
from pagehold.blockmgr.v1 import reply_pb2, session_pb2, turn_pb2

HANDLES = st.integers(1, 2**63 - 1)
COUNTS = st.integers(0, 2**32 - 1)
POSITIONS = st.integers(0, 2**26)
IDS = st.integers(0, 2**31 - 1)
UUIDS = st.binary(min_size=16, max_size=16)
DOUBLES = st.floats(allow_nan=False)
SINGLES = st.floats(allow_nan=False, width=32)


def array_of(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


def arrays(elements: st.SearchStrategy[int], size: int) -> st.SearchStrategy[Any]:
    return st.lists(elements, min_size=size, max_size=size).map(array_of)


def any_arrays(elements: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=6).map(array_of)


@st.composite
def appends(draw: st.DrawFn) -> Appends:
    size = draw(st.integers(0, 5))
    count = draw(st.integers(0, 9)) if size else 0
    ids = draw(arrays(IDS, count))
    with_logprobs = count and draw(st.booleans())
    logprobs = draw(st.lists(SINGLES, min_size=count, max_size=count)) if with_logprobs else None
    found = np.array(logprobs, dtype=np.float32) if logprobs is not None else None
    return Appends(
        draw(arrays(HANDLES, size)), draw(arrays(POSITIONS, size)), draw(arrays(POSITIONS, size)), ids, found
    )


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    """The groups of parallel arrays."""
    size = draw(st.integers(0, 5))
    progress = Progress(draw(arrays(HANDLES, size)), draw(arrays(POSITIONS, size)), draw(arrays(POSITIONS, size)))
    size = draw(st.integers(0, 5))
    look_ahead = draw(st.one_of(arrays(POSITIONS, size), st.just(np.zeros(size, dtype=np.int64))))
    wanted = Reservations(draw(arrays(HANDLES, size)), draw(arrays(POSITIONS, size)), look_ahead)
    size = draw(st.integers(0, 5))
    reasons = st.sampled_from([reason for reason in FinishReason if reason != FinishReason.UNSPECIFIED])
    finished = Finished(draw(arrays(HANDLES, size)), draw(st.lists(reasons, min_size=size, max_size=size)))
    return {"progress": progress, "appends": draw(appends()), "reservations": wanted, "finished": finished}


@st.composite
def reorders(draw: st.DrawFn) -> Reorder:
    size = draw(st.integers(0, 5))
    scores = np.array(draw(st.lists(DOUBLES, min_size=size, max_size=size)), dtype=np.float64)
    return Reorder(draw(arrays(HANDLES, size)), draw(arrays(COUNTS, size)), draw(arrays(IDS, size)), scores)


OUTPUTS = st.none() | st.lists(IDS, max_size=6).map(lambda ids: np.array(ids, dtype=np.int32))
FORKS = st.builds(
    Fork, HANDLES, st.lists(st.builds(Child, UUIDS, st.binary(max_size=9), DOUBLES, OUTPUTS), min_size=1, max_size=4)
)
ADMISSIONS = st.builds(
    Admission,
    uuid=UUIDS,
    prompt=st.lists(st.integers(-5, 2**31 - 1), max_size=20).map(lambda ids: np.array(ids, dtype=np.int32)),
    reserve=COUNTS,
    max_length=COUNTS,
    salt=st.binary(max_size=9),
    adapter=st.text(max_size=9),
    flags=st.sampled_from([SequenceFlags(bits) for bits in range(4)]),
    priority=st.integers(-(2**31), 2**31 - 1),
    caller=UUIDS,
    body=UUIDS,
    request=st.binary(max_size=20),
)
WANTS = st.none() | st.builds(Want, UUIDS, st.integers(-(2**31), 2**31 - 1), st.floats(0, 1e12), COUNTS, st.booleans())
STEPS = st.none() | st.integers(0, 2**63 - 1)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    return Message(
        epoch=draw(HANDLES),
        number=draw(HANDLES),
        launched_step=draw(STEPS),
        completed_step=draw(STEPS),
        failed=draw(st.booleans()),
        solo=draw(st.just(0) | HANDLES),
        tickets_done=draw(any_arrays(HANDLES)),
        forks=draw(st.lists(FORKS, max_size=2)),
        reorders=draw(st.lists(reorders(), max_size=2)),
        swap_out=draw(any_arrays(HANDLES)),
        swap_in=draw(any_arrays(HANDLES)),
        look_again=draw(any_arrays(HANDLES)),
        admissions=draw(st.lists(ADMISSIONS, max_size=2)),
        release=draw(any_arrays(HANDLES)),
        demote=draw(COUNTS),
        want=draw(WANTS),
        **draw(groups()),
    )


ZERO_OR_HANDLE = st.just(0) | HANDLES
REFUSALS = st.sampled_from(Refusal)
TABLES = st.builds(TableUpdate, HANDLES, POSITIONS, any_arrays(COUNTS))
TICKETS = st.builds(
    Ticket,
    id=HANDLES,
    kind=st.sampled_from(TicketKind),
    handle=ZERO_OR_HANDLE,
    index=st.just(-1) | COUNTS,
    source=COUNTS,
    destination=COUNTS,
)
ADMITTED = st.builds(
    Admitted, UUIDS, ZERO_OR_HANDLE, COUNTS, ZERO_OR_HANDLE, REFUSALS, COUNTS, COUNTS, st.text(max_size=9)
)
FORKED = st.builds(Forked, HANDLES, st.lists(HANDLES, max_size=3), REFUSALS, COUNTS, COUNTS)
REPLIES = st.builds(
    Reply,
    number=HANDLES,
    revision=HANDLES,
    tables=st.lists(TABLES, max_size=4),
    short=st.lists(HANDLES, max_size=4),
    tickets=st.lists(TICKETS, max_size=4),
    admitted=st.lists(ADMITTED, max_size=3),
    forked=st.lists(FORKED, max_size=3),
    swaps_refused=st.lists(st.builds(Swapped, HANDLES, REFUSALS, COUNTS, COUNTS), max_size=3),
    looked_again=st.lists(st.builds(LookedAgain, HANDLES, COUNTS, ZERO_OR_HANDLE), max_size=3),
    stale=st.lists(HANDLES, max_size=4),
    cancel=st.lists(HANDLES, max_size=4),
    final_lengths=st.lists(st.tuples(HANDLES, POSITIONS), max_size=3),
    drain=st.booleans(),
    free_blocks=COUNTS,
    wanted=WANTS,
    usable_blocks=COUNTS,
    fenced_blocks=COUNTS,
    cached_blocks=COUNTS,
)


def plain(value: Any) -> Any:
    """Data that can be compared: arrays as their type and elements, data classes as their fields."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.tolist())
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@given(messages())
def test_a_turn_means_the_same_after_the_wire(message: Message) -> None:
    data = encode_turn(message).SerializeToString()
    assert plain(decode_turn(turn_pb2.Turn.FromString(data))) == plain(message)


@given(REPLIES, st.integers(1, 2**63 - 1))
def test_a_reply_means_the_same_after_the_wire(reply: Reply, manager_epoch: int) -> None:
    assert plain(decode_reply(encode_reply(reply, manager_epoch))) == plain(reply)


@given(REPLIES)
def test_the_bytes_of_a_reply_answer_a_session_and_an_exchange_alike(reply: Reply) -> None:
    data = encode_reply(reply, 7)
    on_session, on_exchange = (
        session_pb2.SessionResponse.FromString(data),
        session_pb2.ExchangeResponse.FromString(data),
    )
    assert on_session.WhichOneof("content") == "reply"
    assert on_session.reply == on_exchange.reply
    assert on_exchange.reply.version.manager_epoch == 7
    assert on_exchange.reply.version.revision == reply.revision


def test_an_empty_turn_inside_a_request_can_be_filled() -> None:
    request = session_pb2.SessionRequest()
    encode_turn(Message(epoch=3, number=4, swap_in=array_of([9])), into=request.turn)
    assert request.WhichOneof("content") == "turn"
    assert decode_turn(request.turn).swap_in.tolist() == [9]


def test_an_array_packed_whole_is_the_same_on_the_wire_as_its_elements_one_by_one() -> None:
    handles, lengths, ids = [1, 2**62], [0, 2**32 - 1], [-(2**31), 2**31 - 1]
    whole, one_by_one = turn_pb2.Turn(), turn_pb2.Turn()
    pack(whole.progress, handles=array_of(handles), launched=array_of(lengths))
    pack(whole.appends, ids=array_of(ids), logprobs=np.array([-0.5, 0.25]))
    one_by_one.progress.handles.extend(handles)
    one_by_one.progress.launched.extend(lengths)
    one_by_one.appends.ids.extend(ids)
    one_by_one.appends.logprobs.extend([-0.5, 0.25])
    assert whole.SerializeToString() == one_by_one.SerializeToString()


def test_a_number_of_the_fields_own_width_does_not_pass_for_another() -> None:
    with pytest.raises(ValueError, match="starts holds -1, which does not fit a field of 32 bits"):
        pack(turn_pb2.Turn().appends, starts=np.array([-1], dtype=np.int32))
    with pytest.raises(ValueError, match=f"ids holds {2**31}, which does not fit a field of 32 bits"):
        pack(turn_pb2.Turn().appends, ids=np.array([2**31], dtype=np.uint32))


@pytest.mark.parametrize(("field", "number"), [("starts", 2**32), ("starts", -1), ("ids", 2**31)])
def test_a_number_that_does_not_fit_its_field_is_not_sent(field: str, number: int) -> None:
    appends = Appends(array_of([1]), array_of([0]), NONE, array_of([0]))
    setattr(appends, field, array_of([number]))
    with pytest.raises(ValueError, match=f"{field} holds {number}, which does not fit a field of 32 bits"):
        encode_turn(Message(epoch=1, number=1, appends=appends))


def test_every_field_of_a_turn_and_of_a_reply_is_decoded() -> None:
    assert set(turns.DECODERS) == {field.name for field in turn_pb2.Turn.DESCRIPTOR.fields}
    assert set(turns.DECODERS) == {field.name for field in fields(Message)}
    assert set(replies.DECODERS) == {field.name for field in reply_pb2.Reply.DESCRIPTOR.fields}
    assert set(replies.DECODERS) - {"version"} == {field.name for field in fields(Reply)} - {"revision"}


def test_arrays_sent_element_by_element_or_by_a_newer_executor_are_read_alike() -> None:
    element = bytes([1 << 3 | 1]) + (7).to_bytes(8, "little")
    packed = bytes([1 << 3 | 2, 8]) + (9).to_bytes(8, "little")
    unknown = bytes([15 << 3 | 2, 3]) + b"new"
    progress = turn_pb2.Progress.FromString(element + unknown + packed + element)
    assert unpack(progress)["handles"].tolist() == [7, 9, 7]
    assert set(unpack(progress)) == {"handles"}


def test_a_handle_of_all_64_bits_is_nobodys_and_goes_back_as_it_came() -> None:
    geometry = PoolGeometry(tokens_per_block=4, block_bytes=16, device_blocks=8, max_sequences=4, max_length=64)
    pool = Pool(geometry, encode=lambda reply: encode_reply(reply, 1))
    turn = turn_pb2.Turn(epoch=pool.register("a", bytes(16), [1]), number=1)
    handles = [2**64 - 1, 2**63, 2**63 - 1]
    turn.progress.MergeFrom(turn_pb2.Progress(handles=handles, launched=[1, 1, 1], computed=[1, 1, 1]))
    assert decode_reply(pool.exchange(decode_turn(turn))).stale == handles


def test_a_turn_that_says_nothing_of_steps_leaves_them_as_before() -> None:
    message = decode_turn(turn_pb2.Turn(epoch=1, number=1))
    assert message.launched_step is None
    assert message.completed_step is None


def test_defaults_are_left_out_of_an_admission() -> None:
    turn = encode_turn(Message(epoch=1, number=1, admissions=[Admission(bytes(16), np.array([1], dtype=np.int32))]))
    present = {descriptor.name for descriptor, _ in turn.admissions[0].ListFields()}
    assert present == {"uuid", "prompt"}


def test_every_table_of_a_reply_names_its_group() -> None:
    reply = Reply(1, tables=[TableUpdate(5, 0, array_of([1]))], tickets=[Ticket(1, TicketKind.MOVE, 5, 0, 1, 2)])
    wire = session_pb2.SessionResponse.FromString(encode_reply(reply, 1)).reply
    assert wire.tables[0].HasField("group")
    assert wire.tickets[0].HasField("group")


def of_unlike_lengths(name: str, group: str, to: str = "handles") -> Any:
    def change(turn: turn_pb2.Turn) -> None:
        getattr(getattr(turn, group), to).extend([1, 2])
        getattr(getattr(turn, group), name).append(1)

    return pytest.param(change, f"{group}.{name}", id=f"{group}.{name}")


def change_of(**values: Any) -> Callable[[turn_pb2.Turn], None]:
    return lambda turn: turn.MergeFrom(turn_pb2.Turn(**values))


def reasons(*numbers: int) -> Any:
    return numbers


WRONG = [
    of_unlike_lengths("launched", "progress"),
    of_unlike_lengths("starts", "appends"),
    of_unlike_lengths("lengths", "reservations"),
    of_unlike_lengths("reasons", "finished"),
    pytest.param(
        change_of(progress=turn_pb2.Progress(handles=[1], launched=[1])), "progress.computed", id="progress.computed"
    ),
    pytest.param(
        change_of(appends=turn_pb2.Appends(handles=[1, 2], starts=[1, 1], counts=[1])),
        "appends.counts",
        id="appends.counts",
    ),
    pytest.param(
        change_of(appends=turn_pb2.Appends(handles=[1], starts=[1], counts=[2], ids=[1, 2], logprobs=[0.5])),
        "appends.logprobs",
        id="appends.logprobs",
    ),
    pytest.param(change_of(appends=turn_pb2.Appends(ids=[1])), "appends.ids", id="ids of no sequence"),
    pytest.param(
        change_of(reservations=turn_pb2.Reservations(handles=[1, 2], lengths=[1, 2], look_ahead=[1])),
        "reservations.look_ahead",
        id="reservations.look_ahead",
    ),
    pytest.param(
        change_of(finished=turn_pb2.Finished(handles=[1], reasons=reasons(99))),
        "finished.reasons[0]",
        id="unknown reason",
    ),
    pytest.param(
        change_of(finished=turn_pb2.Finished(handles=[1, 2], reasons=reasons(1, 0))),
        "finished.reasons[1]",
        id="no reason",
    ),
    pytest.param(change_of(forks=[turn_pb2.Fork(parent=1)]), "forks[0].children", id="no children"),
    pytest.param(
        change_of(reorders=[turn_pb2.Reorder(handles=[1], parents=[0], ids=[1])]), "reorders[0].scores", id="scores"
    ),
    pytest.param(change_of(admissions=[turn_pb2.Admission(reserve=0)]), "admissions[0].reserve", id="reserve of 0"),
    pytest.param(
        change_of(admissions=[turn_pb2.Admission(max_length=0)]), "admissions[0].max_length", id="max_length of 0"
    ),
    pytest.param(change_of(launched_step=2**63), "launched_step", id="launched_step"),
    pytest.param(change_of(solo=2**64 - 1), "solo", id="solo"),
    pytest.param(change_of(swap_out=[1, 2**63]), "swap_out", id="handle of 64 bits"),
    pytest.param(change_of(tickets_done=[2**64 - 1]), "tickets_done", id="ticket of 64 bits"),
]


@pytest.mark.parametrize(("change", "field"), WRONG)
def test_a_turn_of_wrong_form_is_refused_with_its_field(change: Callable[[turn_pb2.Turn], None], field: str) -> None:
    turn = turn_pb2.Turn(epoch=1, number=1)
    change(turn)
    with pytest.raises(InvalidMessage) as caught:
        decode_turn(turn)
    assert caught.value.field == field


@pytest.mark.parametrize("missing", ["epoch", "number"])
def test_epoch_and_number_are_required(missing: str) -> None:
    turn = turn_pb2.Turn(epoch=1, number=1)
    turn.ClearField(missing)
    with pytest.raises(InvalidMessage) as caught:
        decode_turn(turn)
    assert caught.value.field == missing


def test_tables_of_a_group_that_is_not_known_are_refused() -> None:
    response = session_pb2.SessionResponse()
    response.reply.tables.add(group=1, handles=[1], firsts=[0], counts=[1], blocks=[4])
    with pytest.raises(InvalidMessage, match="group"):
        decode_reply(response.SerializeToString())


@pytest.mark.parametrize("counts", [[1], [3]])
def test_counts_of_table_entries_have_to_add_up(counts: list[int]) -> None:
    response = session_pb2.SessionResponse()
    response.reply.tables.add(group=0, handles=[1], firsts=[0], counts=counts, blocks=[4, 5])
    with pytest.raises(InvalidMessage, match=r"reply\.tables\.blocks"):
        decode_reply(response.reply)


def test_a_refusal_of_a_newer_manager_is_not_taken_for_another() -> None:
    response = session_pb2.SessionResponse()
    response.reply.admitted.add(uuid=bytes(16), refusal=99)
    with pytest.raises(InvalidMessage, match=r"reply\.admitted\.refusal"):
        decode_reply(response.reply)


@pytest.mark.parametrize("name", [name for name in vars(enums) if name.isupper()])
def test_every_state_has_a_number_of_its_own_on_the_wire(name: str) -> None:
    codec = getattr(enums, name)
    assert {codec.decode(number, name): number for number in codec.from_wire} == codec.to_wire


def test_a_number_without_a_state_is_refused() -> None:
    with pytest.raises(InvalidMessage, match=r"block\.state is 0"):
        enums.BLOCK_STATES.decode(0, "block.state")
