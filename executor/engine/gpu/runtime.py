"""What the device needs of CUDA: streams, marks in them, memory that copies need not wait for, and recorded work.

Everything else is tensor work that any device can do. So a stand-in of these few calls is enough to try the device's logic
where there is no GPU.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from executor.engine.gpu.compilations import Compilations


class Mark(Protocol):
    """A point in a stream. It is reached once all work put on the stream before it is done."""

    def synchronize(self) -> None:
        """Wait until it is reached. Raises ``RuntimeError`` if work before it was the GPU's end."""

    def elapsed_time(self, later: Any) -> float:
        """Milliseconds from this mark to a later one, when both are reached."""


class Stream(Protocol):
    """Work done in order, one piece after the other."""

    def wait_event(self, event: Any) -> None:
        """Let the work that follows wait, on the GPU, for a mark in another stream."""


class Runtime(Protocol):
    """One GPU, for one thread: whatever puts work on a stream is called by the same thread."""

    device: torch.device

    def stream(self) -> Stream:
        """A new stream."""

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """Tensor work inside goes to this stream."""

    def mark(self, stream: Stream) -> Mark:
        """Mark where a stream stands now."""

    def pinned(self, size: int) -> torch.Tensor:
        """New memory of the host, uint8 ``[size]``, that the GPU copies from and to by itself."""

    def record(self, stream: Stream, work: Callable[[], None]) -> Callable[[], None]:
        """Record tensor work, without doing it. Returns what does it again, on the stream current then.

        The work's tensors stay where they are; what it made inside lies in memory that all recorded work shares, and is
        overwritten by whatever is done next.
        """

    def settle(self) -> None:
        """Wait until the GPU has nothing to do. For the start only."""


class CudaRuntime:
    """A GPU by CUDA."""

    def __init__(self, device: torch.device, compilations: Compilations | None = None) -> None:
        """The GPU of a torch device; what is recorded is counted."""
        self.device = device
        self._compilations = compilations or Compilations()
        self._recorded_memory: Any = None

    def stream(self) -> Stream:
        """See ``Runtime``."""
        return torch.cuda.Stream(self.device)

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """See ``Runtime``."""
        return torch.cuda.stream(stream)  # type: ignore[arg-type] # it is one of those that `stream` made

    def mark(self, stream: Stream) -> Mark:
        """See ``Runtime``. Whoever waits for a mark sleeps; it does not spin."""
        return stream.record_event(torch.cuda.Event(enable_timing=True, blocking=True))  # type: ignore[attr-defined]

    def pinned(self, size: int) -> torch.Tensor:
        """See ``Runtime``."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def record(self, stream: Stream, work: Callable[[], None]) -> Callable[[], None]:
        """See ``Runtime``."""
        if self._recorded_memory is None:
            self._recorded_memory = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        self.settle()
        with self.on(stream):
            # Other threads may do as they like meanwhile: none of them puts work on this stream.
            graph.capture_begin(pool=self._recorded_memory, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        self._compilations.note("graph")
        return graph.replay

    def settle(self) -> None:
        """See ``Runtime``."""
        torch.cuda.synchronize(self.device)
