"""Replaying the recorded events of a run."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from blockmgr.commands.simulation import simulate
from blockmgr.core.events import Event
from blockmgr.simulation.driver import Driver
from blockmgr.simulation.lifecycle import Lifecycle, live_through
from blockmgr.simulation.ownership import letters
from blockmgr.simulation.recorded import RecordingError, read_events
from blockmgr.simulation.replay import Replay, replay

TOP = 10_000


def as_line(event: Event) -> str:
    """An event as `pagehold watch --json` writes it."""
    return json.dumps(asdict(event) | {"uuid": event.uuid.hex()})


def follow(lines: list[str]) -> Replay:
    return replay(read_events(lines, "run.jsonl"), TOP)


def event(kind: str, blocks: list[int] | None = None, **fields: Any) -> str:
    return json.dumps({"kind": kind, "blocks": blocks or [], **fields})


@pytest.fixture(scope="module")
def recording() -> tuple[Lifecycle, list[str]]:
    lines: list[str] = []
    story = live_through(on_events=lambda events: lines.extend(map(as_line, events)))
    return story, lines


@pytest.fixture
def recorded_file(recording: tuple[Lifecycle, list[str]], tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(recording[1]) + "\n")
    return path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, ["replay", *arguments])


def test_replayed_events_show_the_blocks_that_the_run_had(recording: tuple[Lifecycle, list[str]]) -> None:
    story, lines = recording
    replayed = follow(lines)
    moments: Iterator[dict[str, list[int]]] = iter([moment.device.blocks for moment in replayed.moments])
    states = [{name: held.blocks for name, held in event.paged.requests.items()} for event in story.events]
    for before, state in zip([{}, *states], states, strict=False):
        # An event that took and released nothing left no moment.
        if state != before:
            assert state in moments, f"{state} is shown at no later moment"
    assert replayed.moments[-1].device.blocks == states[-1]
    assert list(replayed.owners) == list("ABCDEFG")
    assert replayed.unknown_events == 0


def test_shared_blocks_stay_held_when_one_of_their_owners_finishes() -> None:
    lines: list[str] = []
    driver = Driver(16, 4, on_events=lambda events: lines.extend(map(as_line, events)))
    parent = driver.admit([6])[0].handle
    family = driver.fork([parent], 1)[0]
    driver.decode(family)
    driver.decode(family)
    shared = driver.table(family[1])[0]
    driver.finish([parent])
    last = follow(lines).moments[-1].device
    assert shared in last.others + last.blocks.get("B", [])
    assert set(driver.table(family[1])) <= {*last.others, *last.blocks.get("B", [])}
    driver.finish([family[1]])
    assert follow(lines).moments[-1].device.blocks == {}
    assert follow(lines).moments[-1].device.others == []


def test_a_copy_moves_from_source_to_destination_when_it_is_done() -> None:
    lines = [
        event("admitted", [1, 2], uuid="a"),
        event("copy-ordered", [2, 3], uuid="a"),
        event("copy-done", [2, 3], uuid="a"),
        event("freed", [2]),
    ]
    assert [moment.device.blocks for moment in follow(lines).moments] == [
        {"A": [1, 2]}, {"A": [1, 2, 3]}, {"A": [1, 3]}, {"A": [1, 3]},
    ]  # fmt: skip


def test_cached_blocks_are_held_by_nobody_until_hit_or_evicted() -> None:
    lines = [
        event("admitted", [1, 2], uuid="a", time=1),
        event("finished", [1, 2], uuid="a", time=2),
        event("cached", [2, 1], time=2),
        event("evicted", [2], time=3),
        event("admitted", [1, 2], uuid="b", time=3),
    ]
    moments = follow(lines).moments
    assert [(moment.device.blocks, moment.device.cached) for moment in moments] == [
        ({"A": [1, 2]}, []), ({}, [1, 2]), ({"B": [1, 2]}, []),
    ]  # fmt: skip
    assert [moment.label for moment in moments] == ["A admitted", "A finishes", "evicted, B admitted"]


def test_a_sequence_keeps_its_letter_under_a_new_handle() -> None:
    lines = [
        event("admitted", [1], uuid="a", handle=5),
        event("orphaned", uuid="a", handle=5),
        event("adopted", uuid="a", handle=1048581),
        event("grew", [2], uuid="a", handle=1048581),
    ]
    assert follow(lines).moments[-1].device.blocks == {"A": [1, 2]}


def test_only_the_last_moments_are_listed_and_the_rest_is_counted(recording: tuple[Lifecycle, list[str]]) -> None:
    everything = follow(recording[1])
    some = replay(read_events(recording[1], "run.jsonl"), 3)
    assert some.moments == everything.moments[-3:]
    assert some.moments_before == len(everything.moments) - 3


def test_a_recording_may_begin_with_a_snapshot_whose_tables_are_there_from_then_on() -> None:
    tables = [{"uuid": "a", "blocks": [3, 4]}, {"uuid": "b", "blocks": [4, 0], "tiers": ["TIER_DEVICE", "TIER_HOST"]}]
    lines = [
        json.dumps({"snapshot": {"stats": {"blocks": 17}, "tables": tables[:1]}}),
        json.dumps({"snapshot": {"tables": tables[1:], "last": True}}),
        event("finished", [3, 4], uuid="a"),
        event("freed", [3]),
    ]
    replayed = follow(lines)
    assert (replayed.moments[0].label, replayed.events) == ("snapshot", 2)
    assert replayed.moments[0].device.blocks == {"A": [3, 4], "B": [4]}
    assert replayed.moments[0].host.blocks == {"B": [0]}
    assert replayed.moments[-1].device.blocks == {"B": [4]}


def test_unknown_kinds_and_keys_are_passed_over_and_missed_events_counted() -> None:
    lines = [
        "",
        json.dumps({"event": {"kind": "EVENT_KIND_ADMITTED", "blocks": ["4"], "uuid": "a", "colour": "red"}}),
        event("invented-later", [9], uuid="a"),
        json.dumps({"missed": {"from": 3, "to": 12}}),
        event("grew", [5], uuid="a", revision=13),
    ]
    replayed = follow(lines)
    assert [moment.device.blocks for moment in replayed.moments] == [{"A": [4]}, {"A": [4, 5]}]
    assert (replayed.events, replayed.unknown_events, replayed.missed_events) == (3, 1, 10)


def test_a_sequence_that_swaps_out_and_in_moves_between_the_tiers() -> None:
    lines = [
        event("admitted", [1], uuid="a"),
        event("copy-ordered", [1], host_blocks=[0], uuid="a", detail="swap_out"),
        event("copy-done", [1], host_blocks=[0], uuid="a", detail="swap_out"),
        event("copy-ordered", [7], host_blocks=[0], uuid="a", detail="swap_in"),
        event("copy-done", [7], host_blocks=[0], uuid="a", detail="swap_in"),
    ]
    assert [(moment.device.blocks, moment.host.blocks) for moment in follow(lines).moments] == [
        ({"A": [1]}, {}),
        ({"A": [1]}, {"A": [0]}),
        ({}, {"A": [0]}),
        ({"A": [7]}, {"A": [0]}),
        ({"A": [7]}, {}),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON (Expecting property name enclosed in double quotes at column 2)"),
        ("[1]", "line 2: a JSON list where an event"),
        ('{"blocks": []}', "line 2: 'kind' is missing"),
        ('{"missed": {"from": 3}}', "line 2: 'to' is None, but must be a whole number"),
        ('{"kind": 7}', "line 2: 'kind' is 7, but must be a string"),
        ('{"kind": "freed", "blocks": 3}', "line 2: 'blocks' is 3, but must be a list"),
        ('{"kind": "freed", "blocks": [1, -2]}', "line 2: 'blocks[1]' is -2, but must be a whole number, 0 or more"),
        ('{"kind": "freed", "blocks": [true]}', "line 2: 'blocks[0]' is True"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(RecordingError) as caught:
        follow([event("admitted", [1], uuid="a"), line])
    assert str(caught.value).startswith(f"run.jsonl, {message}")


def test_replay_command_prints_json_and_draws_a_row_for_each_moment(recorded_file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "replay.svg"
    result = invoke(str(recorded_file), "--json", "--svg", str(picture))
    assert result.exit_code == 0
    replayed = json.loads(result.stdout)
    assert replayed["scenario"] == "replay"
    assert replayed["owners"]["A"]["uuid"] == f"{1:032x}"
    drawn = picture.read_text()
    assert all(f">{moment['label']}<" in drawn for moment in replayed["moments"])


def test_replay_table_shows_the_last_moment(recorded_file: Path) -> None:
    result = invoke(str(recorded_file))
    assert result.exit_code == 0
    # The null block comes first; G has the blocks of A, and one more.
    assert "·GGFFFCDDEEEGCCFG" in next(line for line in result.stdout.splitlines() if "G admitted" in line)


def test_replay_command_fails_with_the_line_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("nonsense\n")
    result = invoke(str(path))
    assert result.exit_code == 1
    assert f"{path}, line 1: not JSON" in result.stderr


def test_an_empty_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("")
    result = invoke(str(path))
    assert result.exit_code == 1
    assert "holds no events" in result.stderr


def test_letters_go_on_after_z() -> None:
    assert [letters(number) for number in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]
