"""What an engine counts, for Prometheus. ``docs/metrics.md`` lists the names."""

from collections import Counter as Tally
from collections.abc import Callable
from itertools import pairwise

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from blockmgr.core.messages import Reply
from blockmgr.core.states import FinishReason
from executor.engine.flight import Landed
from executor.engine.news import Ended, News, Refused
from executor.engine.preemption import Preemption, Way
from executor.engine.scheduler import Part
from pagehold.engine.v1 import submit_pb2

TURN_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one engine, in a registry of their own. Counted on the engine's thread, read on any."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"pagehold_engine_{name}", text, registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"pagehold_engine_{name}", text, labels, registry=self.registry)

        self._running = gauge("running_sequences", "Sequences that were let in and have not ended.")
        self._waiting = gauge("waiting_requests", "Requests that wait to be admitted.")
        self._free = gauge("pool_free_blocks", "Device blocks that are free or can be evicted, by the last reply.")
        self._preempted = gauge("preempted_sequences", "Sequences that have made room and are not back.")
        self._preemptions = counter("preemptions", "Sequences that have made room, by way.", "way")
        self._returns = counter("returns", "Sequences that have come back after they made room.")
        self._accepted = counter("requests_accepted", "Requests accepted.")
        self._forked = counter("sequences_forked", "Sequences forked from the first output of their request.")
        self._refused = counter("requests_refused", "Requests refused, by reason.", "reason")
        self._ended = counter("sequences_ended", "Sequences that have ended, by reason.", "reason")
        self._prompt = counter("prompt_tokens_computed", "Tokens of prompts computed, those computed again included.")
        self._cached = counter("prompt_tokens_cached", "Tokens of prompts that came from the prefix cache.")
        self._generated = counter("tokens_generated", "Tokens sampled that count.")
        self._compilations = counter(
            "compilations", "Kernels compiled and decode steps recorded, by kind and by when.", "kind", "when"
        )
        self._steps = counter("steps", "Steps completed, failed ones included.")
        self._turns = counter("turns", "Turns answered by the manager.")
        parts = counter("seconds", "Where the engine's time goes, by part.", "part")
        self._record, self._turn, self._tell = (parts.labels(name) for name in ("record", "turn", "tell"))
        self._schedule, self._launch = parts.labels("schedule"), parts.labels("launch")
        self._device = parts.labels("device")
        self._known: Tally[Way] = Tally()
        self._known_returns = 0
        self.manager_wait = parts.labels("manager_wait")
        self._step_seconds = Histogram(
            "pagehold_engine_step_seconds",
            "The device's time for a step.",
            registry=self.registry,
            buckets=STEP_BUCKETS,
        )
        self._turn_seconds = Histogram(
            "pagehold_engine_turn_seconds", "From a turn to its reply.", registry=self.registry, buckets=TURN_BUCKETS
        )

    def watch_allocator(self, retries: Callable[[], float]) -> None:
        """On a GPU: how often torch had to give memory back and ask again, looked up when somebody asks."""
        text = "Times that a GPU's memory was short, so that a step waited while unused memory was given back."
        Gauge("pagehold_engine_allocation_retries", text, registry=self.registry).set_function(retries)

    def serve(self, port: int) -> None:
        """Serve them over HTTP on the loopback address. Raises ``OSError`` if the port cannot be had."""
        start_http_server(port, addr="127.0.0.1", registry=self.registry)

    def take_load(self, running: int, waiting: int, free_blocks: int, preemption: Preemption) -> None:
        """How busy the engine is."""
        self._running.set(running)
        self._waiting.set(waiting)
        self._free.set(free_blocks)
        self._preempted.set(len(preemption.away) + len(preemption.leaving))
        for way, count in preemption.counts.items():
            self._preemptions.labels(str(way)).inc(count - self._known[way])
        self._returns.inc(preemption.returned - self._known_returns)
        self._known, self._known_returns = preemption.counts.copy(), preemption.returned

    def add_round(self, clock: list[float], scheduling: float) -> None:
        """A round of the loop: when each of its four parts began and the last ended, and what of the second was choosing."""
        record, launch, turn, tell = (later - earlier for earlier, later in pairwise(clock))
        self._record.inc(record)
        self._schedule.inc(scheduling)
        self._launch.inc(launch - scheduling)
        self._turn.inc(turn)
        self._tell.inc(tell)

    def count_compilation(self, kind: str, when: str) -> None:
        """A ``kernel`` was compiled, or a step recorded as a ``graph``: at the ``start`` or while ``serving``."""
        self._compilations.labels(kind, when).inc()

    def count_step(self, parts: list[Part]) -> None:
        """A step was launched."""
        self._prompt.inc(sum(count for sequence, count in parts if sequence.launched <= sequence.prompt))

    def count_landed(self, landed: Landed) -> None:
        """Steps have completed."""
        self._steps.inc(landed.steps)
        self._device.inc(sum(landed.seconds))
        for seconds in landed.seconds:
            self._step_seconds.observe(seconds)
        self._generated.inc(landed.sampled)

    def count_turn(self, seconds: float, reply: Reply, cached: int) -> None:
        """A turn was answered; it brought so many cached tokens of prompts."""
        self._turns.inc()
        self._turn_seconds.observe(seconds)
        self._accepted.inc(sum(admitted.handle != 0 for admitted in reply.admitted))
        self._forked.inc(sum(len(forked.handles) for forked in reply.forked))
        self._cached.inc(cached)

    def count_news(self, news: list[News]) -> None:
        """What doors are told."""
        for one in news:
            match one:
                case Refused():
                    self._refused.labels(_reason(one)).inc()
                case Ended(reason=reason):
                    self._ended.labels(FinishReason(reason).name.lower()).inc()
                case _:
                    pass


def _reason(refused: Refused) -> str:
    if refused.refusal:
        return refused.refusal.name.lower()
    return submit_pb2.RefusedBy.Name(refused.by).removeprefix("REFUSED_BY_").lower()
