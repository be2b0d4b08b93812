"""The threads in which a door does what would keep its event loop from everybody else."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class Threads:
    """A few threads for what takes long: to read and write large messages, to tokenise, to make text of many tokens."""

    def __init__(self, number: int) -> None:
        self._pool = ThreadPoolExecutor(number, thread_name_prefix="tokenizer")

    def close(self) -> None:
        """End the threads, without waiting for what they do."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, work: Callable[Parameters, Answer], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Answer:
        """Do something that takes long in a thread."""
        return await asyncio.wrap_future(self._pool.submit(work, *args, **kwargs))

    async def run_if(
        self,
        takes_long: bool,
        work: Callable[Parameters, Answer],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Answer:
        """Do something in a thread if it takes long; else here, where it is done sooner."""
        return await self.run(work, *args, **kwargs) if takes_long else work(*args, **kwargs)
