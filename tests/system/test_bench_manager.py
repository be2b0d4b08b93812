"""`pagehold bench manager` and `bench kernels` on a machine without a GPU."""

import json
import time
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from bench.commands import bench
from bench.manager import codec, commits


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(bench, list(arguments), env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_turns_are_measured_whole_and_in_parts() -> None:
    result = run("manager", "--part", "turns", "--sizes", "1,3", "--rounds", "20", "--json")
    assert result.exit_code == 0, result.output
    turns = json.loads(result.stdout)["turns"]
    assert set(turns) == {"1", "3"}
    for measured in turns.values():
        assert 0 < measured["turn"]["p50_us"] <= measured["turn"]["p99_us"]
        assert measured["parts"]["manager: core"]["p50_us"] > 0
        assert len(measured["parts"]) == 6


def test_wire_and_ledger_have_a_column_for_each_number_of_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds_of_one(call: Callable[[], object]) -> list[float]:
        start = time.perf_counter()
        call()
        return [time.perf_counter() - start] * 2000

    monkeypatch.setattr(codec, "seconds", seconds_of_one)
    monkeypatch.setattr(commits, "ROUNDS", 100)
    result = run("manager", "--part", "codec", "--part", "ledger", "--sizes", "1,1024")
    assert result.exit_code == 0, result.output
    header, *rows = (line.split() for line in result.stdout.splitlines() if line)
    assert header[-2:] == ["1", "1,024"]
    assert ["manager:", "decode", "turn"] in [row[:3] for row in rows]
    assert ["commit"] in [row[:1] for row in rows]


def test_the_allocator_is_measured_with_and_without_a_ledger() -> None:
    result = run("manager", "--part", "allocator", "--json")
    assert result.exit_code == 0, result.output
    for measured in json.loads(result.stdout)["allocator"].values():
        assert [one["blocks"] for one in measured] == [1_000, 100_000]
        assert {one["recorded_tokens"] for one in measured} == {111_750}


@pytest.mark.parametrize("sizes", ["0", "1025", "a", "1,,2"])
def test_sizes_that_cannot_be_had_are_refused(sizes: str) -> None:
    result = run("manager", "--sizes", sizes)
    assert result.exit_code == 2
    assert "numbers from 1 to 1024" in result.output


def test_kernels_want_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = run("kernels")
    assert result.exit_code == 1
    assert "there is no GPU here" in result.output


def test_rows_of_kernels_show_what_they_have(capsys: pytest.CaptureFixture[str]) -> None:
    from bench.kernels.row import Row, rows_table
    from pagehold.client.output import show

    show(rows_table([Row("decode", "8 × 4,096", 44.3, 3.03, "TB/s", "best peer 42.0 µs, ×0.95"), Row("sample", "1")]))
    header, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == [
        "decode",
        "8",
        "×",
        "4,096",
        "44.3",
        "3.03",
        "TB/s",
        "best",
        "peer",
        "42.0",
        "µs,",
        "×0.95",
    ]
    assert second.split() == ["sample", "1"]
    assert header.split() == ["kernel", "case", "µs", "rate"]
