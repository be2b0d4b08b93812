"""How many kernels were compiled, and decode steps recorded: at the start many, while serving none."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import structlog

log = structlog.get_logger()

Kind = Literal["kernel", "graph"]
When = Literal["start", "serving"]


class Compilations:
    """Counts them, for as long as the process lives. ``serving`` is set once everything should have been compiled."""

    def __init__(self, counted: Callable[[Kind, When], None] = lambda kind, when: None) -> None:
        """``counted`` is called for each."""
        self.serving = False
        self.counts: Counter[tuple[Kind, When]] = Counter()
        self._counted = counted

    def watch(self) -> None:
        """Hear of each kernel that Triton has not in its memory yet, whether it compiles it or reads it from a file."""
        from triton import knobs

        before = knobs.runtime.jit_cache_hook

        def hook(*arguments: Any, **named: Any) -> Any:
            self.note("kernel", str(getattr(named.get("fn"), "name", "")))
            return None if before is None else before(*arguments, **named)

        knobs.runtime.jit_cache_hook = hook

    def note(self, kind: Kind, name: str = "") -> None:
        """One more."""
        when: When = "serving" if self.serving else "start"
        self.counts[kind, when] += 1
        self._counted(kind, when)
        if self.serving:
            log.warning("compiled while serving, which holds up every sequence", kind=kind, name=name)
