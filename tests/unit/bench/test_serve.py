"""`pagehold bench serve` against a scripted service: what it asks, counts and says."""

import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from pagehold.inference.v1 import server_pb2
from tests.scripted.processes import wait_until
from tests.unit.bench.conftest import Run
from tests.unit.client.answers import Answer, Attempt
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served
from tests.unit.client.steps import Held, Refusal

Measure = Callable[..., dict[str, Any]]
QUEUE_FULL = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "ERROR_REASON_QUEUE_FULL", "10 requests are in flight")


def generated(service: ScriptedService) -> list[Any]:
    return [request for method, request in service.calls if method == "Generate"]


def test_it_counts_what_came_and_when(figures: Measure, service: ScriptedService) -> None:
    service.answer = Answer(["a"] * 6)
    service.script = deque([Attempt(cuts=(1, 3, 6)) for _ in range(4)])
    found = figures("seed", "--requests", "4")
    assert (found["requests"], found["completed"], found["failed"]) == (4, 4, {})
    assert (found["output_tokens"], found["prompt_tokens"], found["cached_tokens"]) == (24, 20, 8)
    assert found["output_rate"] == found["output_tokens"] / found["seconds"]
    times = found["times"]
    assert 0 < times["queued"]["p50"] <= times["ttft"]["p50"] <= times["e2e"]["p50"]
    assert times["ttft"]["p50"] <= times["ttft"]["p90"] <= times["ttft"]["p99"]
    assert set(times) == {"ttft", "tpot", "itl", "e2e", "queued"}
    assert (found["model"], found["arrivals"]) == ("toy", "all at once")


def test_it_sends_the_workloads_ids_and_parameters(figures: Measure, service: ScriptedService) -> None:
    from bench.serve.workloads import seed

    figures("seed", "--requests", "3", "--max-tokens", "30")
    expected = {tuple(one.parameters["ids"]): min(30, one.max_tokens) for one in list(seed(500))[:3]}
    assert {tuple(one.prompt.ids.ids): one.stopping.max_tokens for one in generated(service)} == expected
    assert all(one.stopping.ignore_eos and one.sampling.temperature == 0.0 for one in generated(service))


def test_each_run_has_a_salt_of_its_own_unless_one_is_given(figures: Measure, service: ScriptedService) -> None:
    for salt in ((), (), ("--cache-salt", "mine")):
        figures("seed", "--requests", "2", *salt)
    salts = [request.cache.salt for request in generated(service)]
    assert salts[0] == salts[1]
    assert salts[2] == salts[3] != salts[0]
    assert salts[4:] == ["mine", "mine"]


def test_failures_are_counted_by_reason_and_explained(run: Run, figures: Measure, service: ScriptedService) -> None:
    service.script = deque(
        [QUEUE_FULL, Refusal(grpc.StatusCode.INTERNAL, "ERROR_REASON_INTERNAL", "a fault"), QUEUE_FULL]
    )
    found = figures("seed", "--requests", "5", code=1)
    assert (found["completed"], found["failed"]) == (2, {"queue_full": 2, "internal": 1})
    assert any("10 requests are in flight" in line for line in found["remarks"])
    assert any("takes 10 requests at once: give --concurrency" in line for line in found["remarks"])
    service.script = deque([QUEUE_FULL])
    shown = run("seed", "--requests", "2")
    assert shown.exit_code == 1
    assert "1 queue full" in shown.stdout
    assert "queue full: 10 requests are in flight" in shown.stderr


def test_a_closed_loop_never_has_more_in_flight_than_asked_for(figures: Measure, service: ScriptedService) -> None:
    flying: list[int] = [0]

    class Counting(Answer):
        def events(self, *arguments: Any) -> Any:
            flying.append(flying[-1] + 1)
            yield from super().events(*arguments)
            flying.append(flying[-1] - 1)

    service.answer = Counting()
    found = figures("seed", "--requests", "20", "--concurrency", "3")
    assert (found["completed"], found["arrivals"]) == (20, "3 at a time")
    assert len(flying) == 41
    assert 1 <= max(flying) <= 3


def test_requests_at_a_rate_are_made_when_they_are_due(figures: Measure, service: ScriptedService) -> None:
    from bench.serve.arrivals import Arrivals

    found = figures("seed", "--requests", "10", "--rate", "40")
    assert found["completed"] == 10
    assert found["seconds"] >= Arrivals(rate=40.0).moments(10)[-1]


def test_a_time_limit_ends_the_run_with_what_it_has(figures: Measure, service: ScriptedService) -> None:
    # The first answer has to come within the limit, and the second to begin.
    for limit in (1, 4, 16):
        service.script = deque([Attempt(), Held(1)])
        found = figures("seed", "--requests", "4", "--concurrency", "1", "--time-limit", str(limit), code=1)
        if found["failed"]["not_begun"] == 2:
            break
    assert (found["completed"], found["failed"]) == (1, {"not_begun": 2, "time_limit": 1})
    assert found["seconds"] >= limit


def test_several_processes_share_the_requests(figures: Measure, service: ScriptedService) -> None:
    found = figures("seed", "--requests", "5", "--processes", "2", "--connections", "2")
    assert (found["completed"], len(found["client_busy"]), len(generated(service))) == (5, 2, 5)


def test_without_a_manager_waste_is_not_known_and_said_so(run: Run) -> None:
    shown = run("seed", "--requests", "2")
    assert shown.exit_code == 0
    assert "output tokens/s" in shown.stdout
    assert "at most, as the server says it" in shown.stdout
    assert "waste is not known: no block manager answers" in shown.stderr


def test_a_busy_client_is_said_to_be_one() -> None:
    from bench.serve.figures import figures_of
    from bench.serve.report import Outcome

    def said(busy: float) -> str:
        pool = {"mean": None, "peak": None}
        return " ".join(Outcome({}, figures_of([], 0, 1.0), pool, [0.1, busy]).remarks(10))

    assert "busy for 81.00 % of a core" in said(0.81)
    assert said(0.79) == ""


def test_no_server_is_said_in_a_line(run: Run, served: Served) -> None:
    served.stop()
    result = run("seed")
    assert result.exit_code == 1
    assert "no server answers at" in result.stderr


def test_a_model_that_the_workload_does_not_fit_is_refused(run: Run, service: ScriptedService) -> None:
    result = run("prefix")
    assert (result.exit_code, generated(service)) == (1, [])
    assert "the model's context is 2048 tokens" in result.stderr


def test_concurrency_and_rate_exclude_each_other(run: Run) -> None:
    assert run("seed", "--concurrency", "2", "--rate", "2").exit_code == 2
    assert run("seed", "--concurrency", "2", "--processes", "3").exit_code == 2


def test_it_imports_the_client_alone() -> None:
    script = (
        "import sys, bench.serve.session, bench.serve.client_process\n"
        "parts = {'blockmgr', 'executor', 'kernels', 'numpy', 'torch'}\n"
        "print(sorted(parts & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_servers_load_is_watched(figures: Measure, served: Served, service: ScriptedService) -> None:
    low, high = (
        server_pb2.GetLoadResponse(running=running, waiting=9, blocks=100, free_blocks=100 - 25 * running, age=0.1)
        for running in (1, 3)
    )
    service.unary["GetLoad"] = deque([low, *[high] * 1000])
    service.script = deque([Held(1)])
    with ThreadPoolExecutor(1) as pool:
        # A look at a server that does not answer in time counts for nothing: it takes several to be sure of one.
        looked = pool.submit(wait_until, lambda: service.methods().count("GetLoad") > 4, "it has looked several times")
        looked.add_done_callback(lambda _: served.release())
        load = figures("seed", "--requests", "2")["pool"]
    assert (load["most_running"], load["most_waiting"], load["most_taken"]) == (3, 9, 0.75)
