"""The report of a check in parts: what fails costs the other parts nothing."""

import json
from pathlib import Path

import pytest

from benchmarks.gpu_report import Report, Row
from benchmarks.scrape import StepTimes


def test_a_part_that_fails_is_noted_and_the_next_one_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(tmp_path, str(tmp_path), 60.0)

    def fail(seconds: float) -> None:
        raise RuntimeError("no such luck")

    report.part("first", 5.0, fail)
    report.part("second", 5.0, lambda seconds: report.add(Row("time", seconds, "s")))
    assert report.print() == 1
    said = capsys.readouterr().out
    assert "first failed after 0.0 s: RuntimeError: no such luck" in said
    kept = json.loads((tmp_path / "report.json").read_text())
    assert [row["name"] for row in kept["rows"]] == ["time"]
    assert "no such luck" in kept["traces"][0]


def test_a_part_is_told_how_long_it_may_take_and_left_out_where_no_time_is_left(tmp_path: Path) -> None:
    told: list[float] = []
    report = Report(tmp_path, str(tmp_path), 10.0)
    report.part("long", 60.0, told.append)
    assert 5.0 <= told[0] <= 10.0
    late = Report(tmp_path, str(tmp_path), 4.0)
    late.part("late", 60.0, told.append)
    assert len(told) == 1
    assert late.print() == 1


def test_an_aim_that_is_missed_fails_the_whole_and_one_that_is_met_does_not(tmp_path: Path) -> None:
    report = Report(tmp_path, str(tmp_path), 60.0)
    report.add(Row("met", 5.9, "ms", at_most=6.0))
    report.add(Row("met too", 7000.0, "tokens/s", at_least=7000.0))
    report.add(Row("no aim", 1.0, "s"))
    assert report.print() == 0
    missed = Row("missed", 6.1, "ms", at_most=6.0)
    assert str(missed).endswith("NO")
    report.add(missed)
    assert report.print() == 1


def test_step_times_are_what_grew_over_the_steps_between() -> None:
    def metrics(steps: int, device: float, turns: int) -> StepTimes:
        return StepTimes(
            f'pagehold_engine_steps_total {steps}\npagehold_engine_seconds_total{{part="device"}} {device}\n'
            f"pagehold_engine_turns_total {turns}\npagehold_engine_turn_seconds_sum {turns * 0.002}\n"
            f"pagehold_engine_tokens_generated_total {steps * 8}\n"
        )

    found = metrics(30, 1.5, 12).since(metrics(10, 0.5, 2))
    assert (found["steps"], found["turns"], found["tokens"]) == (20, 10, 160)
    assert found["device"] == pytest.approx(50.0)
    assert found["turn_to_reply"] == pytest.approx(2.0)
    assert found["manager_wait"] == 0.0
