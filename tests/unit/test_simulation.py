"""The simulation's scenarios: their figures, and that pictures and JSON say the same."""

import json
import random
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from blockmgr.commands.simulation import simulate
from blockmgr.core.errors import PoolExhausted
from blockmgr.simulation.beams import BeamScores, Divergence
from blockmgr.simulation.contiguous import ContiguousPool
from blockmgr.simulation.driver import Driver, Move
from blockmgr.simulation.lifecycle import Lifecycle, live_through
from blockmgr.simulation.sharing import measure_sharing
from blockmgr.simulation.snapshot import take_snapshot
from blockmgr.simulation.svg import Drawing
from blockmgr.simulation.sweep import sweep
from blockmgr.simulation.workload import SHAREGPT, Request, uniform_requests

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def story() -> Lifecycle:
    return live_through()


def run(*arguments: str) -> str:
    """Run `simulate` with these arguments; return what it printed."""
    result = CliRunner().invoke(simulate, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def texts(svg: str) -> list[str]:
    """Every text of a drawing that is shown."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


# -- snapshot and sweep ----------------------------------------------------------------------------------------------


def test_snapshot_has_the_known_figures(tmp_path: Path) -> None:
    picture = tmp_path / "snapshot.svg"
    assert json.loads(run("snapshot", "--json", "--svg", str(picture))) == {
        "scenario": "snapshot",
        "slots": 1_000_000,
        "max_seq_len": 2048,
        "tokens_per_block": 16,
        "requests": 1000,
        "contiguous": {
            "admitted": 488,
            "usable": 1_000_000,
            "reserved": 999_424,
            "tokens": 187_131,
            "utilisation_percent": 18.71,
            "fragmentation_percent": 81.28,
        },
        "paged": {
            "admitted": 1000,
            "usable": 1_000_000,
            "reserved": 393_664,
            "tokens": 386_241,
            "utilisation_percent": 38.62,
            "fragmentation_percent": 1.89,
        },
    }
    shown = " ".join(texts(picture.read_text()))
    assert "488 admitted · 999,424 reserved for 187,131 tokens" in shown
    assert "1,000 admitted · 393,664 reserved for 386,241 tokens" in shown


def test_requests_are_prompt_then_output_of_one_generator() -> None:
    numbers = random.Random(42)
    expected = [(numbers.randint(50, 500), numbers.randint(20, 200)) for _ in range(3)]
    assert [(request.prompt, request.output) for request in uniform_requests(3)] == expected


def test_a_full_paged_pool_refuses_whole_requests() -> None:
    taken = take_snapshot([Request(30, 10), Request(20, 20), Request(4, 4)], 64, 64, tokens_per_block=8)
    assert taken.paged.admitted == 2
    assert taken.paged.tokens == 48
    assert taken.paged.reserved == 48


def test_sweep_has_the_known_figures_for_every_size_of_block(tmp_path: Path) -> None:
    picture = tmp_path / "sweep.svg"
    swept = json.loads(run("sweep", "--json", "--svg", str(picture)))
    rows = {row["tokens_per_block"]: row for row in swept["rows"]}
    assert {size: row["use"]["reserved"] for size, row in rows.items()} == {
        8: 389_696, 16: 393_664, 32: 401_792, 64: 417_792, 128: 450_560,
    }  # fmt: skip
    assert {size: row["use"]["fragmentation_percent"] for size, row in rows.items()} == {
        8: 0.89, 16: 1.89, 32: 3.87, 64: 7.55, 128: 14.28,
    }  # fmt: skip
    assert (rows[128]["use"]["usable"], rows[128]["use"]["utilisation_percent"]) == (999_936, 38.63)
    assert (rows[16]["use"]["usable"], rows[16]["use"]["utilisation_percent"]) == (1_000_000, 38.62)
    for size, row in rows.items():
        assert row["table_bytes"] == 4 * row["use"]["reserved"] // size
        assert row["steps"] == 200
        assert min(row["admit_seconds"], row["grow_seconds"], row["release_seconds"]) > 0
    assert {"0.89", "1.89", "3.87", "7.55", "14.28"} <= set(texts(picture.read_text()))


def test_sweep_leaves_nothing_behind_and_says_when_the_pool_is_too_small() -> None:
    swept = sweep([Request(5, 3)], slots=16, max_seq_len=16, sizes=(4,))
    assert swept.rows[0].use.reserved == 8
    with pytest.raises(PoolExhausted):
        sweep([Request(5, 3), Request(5, 8)], slots=16, max_seq_len=16, sizes=(4,))


# -- lifecycle -------------------------------------------------------------------------------------------------------


def test_contiguous_refuses_e_with_23_tokens_in_use_and_paged_admits_it(story: Lifecycle) -> None:
    e = next(event for event in story.events if event.request == "E")
    assert (e.contiguous.refused, e.contiguous.tokens_before, e.contiguous.reserved_before) == (True, 23, 64)
    assert (e.paged.refused, e.paged.tokens_before, e.paged.reserved_before) == (False, 23, 32)
    assert e.paged.requests["E"].tokens == 12
    assert [event.label for event in story.events if event.contiguous.refused or event.paged.refused] == [e.label]


def test_f_takes_the_blocks_that_b_released_and_g_those_of_a(story: Lifecycle) -> None:
    by_label = {event.label: event.paged for event in story.events}
    from_b, from_a = by_label["B completes"].released, by_label["A completes"].released
    assert len(from_b) == len(from_a) == 3
    assert by_label["F arrives, 12"].taken == from_b
    assert by_label["G arrives, 15"].taken[:3] == from_a
    assert len(by_label["G arrives, 15"].taken) == 4


def test_lifecycle_follows_the_script_event_by_event(story: Lifecycle) -> None:
    assert [(event.event, event.request, event.tokens) for event in story.events] == [
        ("arrive", "A", 5), ("arrive", "B", 9), ("arrive", "C", 3), ("arrive", "D", 6), ("arrive", "E", 12),
        ("grow", "A", 5), ("grow", "B", 3), ("grow", "C", 8), ("complete", "B", 0), ("arrive", "F", 12),
        ("grow", "F", 4), ("complete", "A", 0), ("arrive", "G", 15),
    ]  # fmt: skip
    assert [event.paged.reserved for event in story.events] == [8, 20, 24, 32, 44, 48, 48, 56, 44, 56, 60, 48, 64]
    assert [event.contiguous.tokens for event in story.events] == [5, 14, 17, 23, 23, 28, 31, 39, 27, 39, 43, 33, 48]


def test_no_block_of_the_lifecycle_has_two_owners(story: Lifecycle) -> None:
    for event in story.events:
        blocks = [block for request in event.paged.requests.values() for block in request.blocks]
        assert len(blocks) == len(set(blocks)) == event.paged.reserved // story.tokens_per_block
        assert set(blocks) <= set(range(1, 17))


def test_lifecycle_picture_has_a_row_for_each_event_and_both_pools(tmp_path: Path, story: Lifecycle) -> None:
    picture = tmp_path / "lifecycle.svg"
    assert json.loads(run("lifecycle", "--json", "--svg", str(picture))) == {"scenario": "lifecycle"} | asdict(story)
    shown = texts(picture.read_text())
    assert "contiguous (64 slots)" in shown
    assert "paged (64 slots)" in shown
    for event in story.events:
        assert any(text.startswith(event.label) for text in shown)
        assert shown.count(f"{event.paged.tokens} / {event.paged.reserved}") >= 1


def test_lifecycle_table_shows_both_pools_after_each_event() -> None:
    lines = run("lifecycle").splitlines()
    last = next(line for line in lines if "G arrives" in line)
    assert "GGGGFFFFCCCcDDdd" in last
    assert "GGFFFCDDEEEGCCFG" in last


# -- the two pools ---------------------------------------------------------------------------------------------------


def test_contiguous_pool_reuses_the_first_gap_that_is_long_enough() -> None:
    pool = ContiguousPool(10)
    assert pool.admit("a", 1, 3)
    assert pool.admit("b", 1, 4)
    assert pool.admit("c", 1, 3)
    pool.release("a")
    pool.release("c")
    assert not pool.admit("long", 1, 4)
    assert pool.admit("short", 1, 2)
    assert pool.reservations["short"].start == 0
    assert pool.reserved == 6


def test_contiguous_request_cannot_outgrow_its_reservation() -> None:
    pool = ContiguousPool(10)
    pool.admit("a", 2, 4)
    pool.grow("a", 2)
    with pytest.raises(ValueError, match="a is 5, but 4 are reserved"):
        pool.grow("a", 1)


def test_driver_performs_the_copies_that_forks_order() -> None:
    driver = Driver(16, 4)
    parent = driver.admit([6])[0].handle
    family = driver.fork([parent], 2)[0]
    assert (driver.blocks_in_use, driver.table_entries) == (2, 6)
    driver.decode(family)
    assert driver.copies == 2
    driver.decode(family)
    tables = [driver.table(handle) for handle in family]
    assert len({table[0] for table in tables}) == 1
    assert len({table[1] for table in tables}) == 3
    driver.finish(family)
    assert driver.blocks_in_use == 0


def test_driver_moves_beams_and_gives_up_what_no_beam_continues() -> None:
    driver = Driver(16, 4)
    family = driver.fork([driver.admit([4])[0].handle], 1)[0]
    handles = np.array(family, dtype=np.int64)
    driver.reorder([Move(handles, np.array([0, 0]), np.zeros(2))])
    assert driver.blocks_in_use == 3
    driver.reorder([Move(handles, np.array([1, 1]), np.zeros(2))])
    # Both go on from beam 1, in a copy each but for the last that writes.
    assert driver.blocks_in_use == 3
    assert driver.lengths == dict.fromkeys(family, 6)


# -- sharing ---------------------------------------------------------------------------------------------------------


def test_sharing_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, again, other = (measure_sharing(3, seed) for seed in (5, 5, 6))
    assert first == again
    assert [row.saved_percent for row in first.rows] != [row.saved_percent for row in other.rows]


def test_sharing_saves_more_the_wider_and_less_than_everything_but_one() -> None:
    rows = {(row.method, row.mix, row.width): row for row in measure_sharing(8, 1).rows}
    assert len(rows) == 12
    for (method, mix, width), row in rows.items():
        assert 0 < row.saved_percent < 100 * (1 - 1 / width)
        assert row.blocks_unshared * row.saved_percent / 100 == pytest.approx(
            row.blocks_unshared - row.blocks, rel=0.01
        )
        if width > 2:
            assert row.saved_percent > rows[method, mix, width - 2].saved_percent
        if method == "beam":
            assert row.saved_percent > rows["sampling", mix, width].saved_percent


def test_samples_save_exactly_the_full_blocks_of_the_prompt() -> None:
    driver = Driver(100, 16)
    family = driver.fork([driver.admit([40])[0].handle], 3)[0]
    for _ in range(20):
        driver.decode(family)
    assert driver.table_entries - driver.blocks_in_use == 3 * (40 // 16)


def test_beams_that_see_the_same_distribution_live_longer() -> None:
    def moves(noise: float) -> int:
        scores = BeamScores(4, 400, Divergence(noise=noise), np.random.default_rng(0))
        return sum(len(set(scores.step().tolist())) < 4 for _ in range(400))

    assert moves(0.0) < moves(0.2) < moves(2.0)


def test_a_beam_that_goes_on_keeps_its_place_and_scores_fall() -> None:
    scores = BeamScores(4, 50, Divergence(), np.random.default_rng(1))
    assert scores.step().tolist() == [0, 0, 0, 0]
    for _ in range(49):
        before = scores.scores.copy()
        parents = scores.step()
        assert all(parents[place] == place for place in set(parents.tolist()))
        assert (scores.scores <= before[parents]).all()


def test_divergence_outside_its_limits_is_refused_with_the_limit() -> None:
    with pytest.raises(ValueError, match=r"entropy is 9, but must lie in 0\.05\.\.4"):
        Divergence(entropy=9)


def test_drawn_lengths_have_the_means_of_the_mix_and_keep_its_limit() -> None:
    drawn = SHAREGPT.draw(20_000, np.random.default_rng(0))
    assert np.mean([request.prompt for request in drawn]) == pytest.approx(161, rel=0.03)
    assert np.mean([request.output for request in drawn]) == pytest.approx(338, rel=0.03)
    assert max(request.final for request in drawn) <= SHAREGPT.limit
    assert min(min(request.prompt, request.output) for request in drawn) >= 1


def test_sharing_command_names_its_seed_its_model_and_the_paper(tmp_path: Path) -> None:
    picture = tmp_path / "sharing.svg"
    shared: dict[str, Any] = json.loads(
        run("sharing", "--requests", "2", "--seed", "7", "--json", "--svg", str(picture))
    )
    assert (shared["seed"], shared["requests"], shared["entropy_nats"], shared["noise"]) == (7, 2, 1.0, 0.1)
    assert shared["length_distribution"].startswith("geometric")
    assert shared["paper_percent"]["beam ShareGPT"] == [44.3, 66.3]
    assert any("seed 7" in text for text in texts(picture.read_text()))


# -- drawings --------------------------------------------------------------------------------------------------------


def test_drawing_escapes_what_it_is_given() -> None:
    drawing = Drawing(100, 100)
    drawing.heading("<a> & b", "c < d")
    drawing.rect(0, 0, 1, 1, "#000000", tip="<tip>")
    root = ElementTree.fromstring(str(drawing))
    assert "<a> & b" in texts(str(drawing))
    assert [element.text for element in root.iter(f"{SVG}title")] == ["<a> & b", "<tip>"]


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "picture.svg"
    result = CliRunner().invoke(simulate, ["lifecycle", "--svg", str(missing)])
    assert result.exit_code == 1
    assert f"--svg is {missing}" in result.stderr
