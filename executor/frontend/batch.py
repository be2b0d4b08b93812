"""Several requests on one stream: each its own generation, at most as many at once as there are places."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from executor.frontend.admission import Place
from executor.frontend.door import Door
from executor.frontend.errors import InvalidRequest, QueueFull
from executor.frontend.statuses import reason_of, to_item_failure
from executor.frontend.stopwatch import Arrival
from executor.frontend.submission import submit
from pagehold.inference.v1 import generation_pb2

AHEAD = 64
"""Events that may wait for a client before its generations wait too."""

AGAIN_SECONDS = 0.2
"""Pause before an item that the engine had no room for is tried again: a batch waits its turn."""

Response = generation_pb2.BatchGenerateResponse


async def generate_batch(
    door: Door, request: generation_pb2.BatchGenerateRequest, place: Place, is_large: bool
) -> AsyncGenerator[Response, None]:
    """The events of all items as they happen. The batch has one place and takes more while there are any.

    ``is_large``: it came in a large message. Raises InvalidRequest for a batch that is empty or too large. Closing it
    hangs up on everything under way.
    """
    count, most = len(request.requests), door.settings.max_batch
    if not 1 <= count <= most:
        raise InvalidRequest.of("requests", f"is {count} items long, but must have 1 to {most}")
    batch = _Batch(door, list(request.requests), is_large)
    whole = asyncio.create_task(batch.run(place))
    try:
        while (event := await batch.events.get()) is not None:
            yield event
        await whole
    finally:
        whole.cancel()
        await asyncio.gather(whole, return_exceptions=True)


class _Batch:
    """Works through the items. Each ends as a call of its own would: where the door stops, what was not started is refused,
    and what runs has until the door leaves.
    """

    def __init__(self, door: Door, items: list[generation_pb2.GenerateRequest], is_large: bool) -> None:
        self._door, self._items, self._is_large = door, items, is_large
        self.events: asyncio.Queue[Response | None] = asyncio.Queue(AHEAD)
        """What happened, in the order in which it is to be sent; None is the end."""
        self._next = 0

    async def run(self, place: Place) -> None:
        """Start workers: one on the batch's own place, more on free ones, as they become free."""
        try:
            async with asyncio.TaskGroup() as workers:
                workers.create_task(self._work())
                while self._next < len(self._items):
                    if self._door.places.is_closed:
                        await self._work()  # which refuses all that is left
                        break
                    spare = self._door.places.try_take()
                    if spare is not None:
                        workers.create_task(self._work_on(spare))
                    # Without a pause the new worker would not have taken its item.
                    await asyncio.sleep(0 if spare is not None else AGAIN_SECONDS)
        finally:
            place.give_back()
        await self.events.put(None)

    async def _work_on(self, place: Place) -> None:
        with place:
            await self._work()

    async def _work(self) -> None:
        while self._next < len(self._items):
            item = self._next
            self._next += 1
            try:
                await self._generate(item)
            except Exception as error:
                self._door.metrics.requests.labels(reason_of(error)).inc()
                await self.events.put(Response(item=item, failure=to_item_failure(error)))

    async def _generate(self, item: int) -> None:
        arrived = Arrival.now()
        while True:
            self._door.places.check_open()
            generation = await submit(self._door, self._items[item], arrived, self._is_large)
            try:
                async with aclosing(generation.events()) as events:
                    async for event in events:
                        await self.events.put(Response(item=item, event=event))
                return
            except QueueFull:
                await asyncio.sleep(AGAIN_SECONDS)
