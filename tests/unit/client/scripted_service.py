"""An inference service that does what a test wrote down."""

# ruff: noqa: N802 - methods are called as the contract calls them

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.message import Message

from pagehold.inference.v1 import (
    generation_pb2,
    inference_service_pb2_grpc,
    requests_pb2,
    server_pb2,
    tokens_pb2,
)
from tests.unit.client.answers import Answer, Attempt
from tests.unit.client.steps import BREAK, Broken, Context, Held, Refusal, Step


class ScriptedService(inference_service_pb2_grpc.InferenceServiceServicer):
    """Gives ``answer`` to every generation; each call takes its next step from ``script``, and goes well without one.

    The next ``ends_early`` calls end with OK behind their second event. ``unary`` has what a method answers, or refuses
    with, in turn; its default otherwise. ``calls`` has what was asked, ``hung_up`` how many streams ended because their
    caller went.
    """

    def __init__(self) -> None:
        self.answer = Answer()
        self.ends_early = 0
        self.script: deque[Step] = deque()
        self.unary: dict[str, deque[Message | Refusal]] = {}
        self.calls: list[tuple[str, Any]] = []
        self.hung_up = 0
        self.released = asyncio.Event()
        self.batch: Callable[[Any], AsyncIterator[Any]] | None = None

    def methods(self) -> list[str]:
        """The methods that were called, in order."""
        return [method for method, _ in self.calls]

    async def Generate(self, request: Any, context: Context) -> AsyncIterator[Any]:
        self.calls.append(("Generate", request))
        async for event in self._stream(context, self.answer_to(request), 0, request.request_id):
            yield generation_pb2.GenerateResponse(event=event)

    async def Attach(self, request: Any, context: Context) -> AsyncIterator[Any]:
        self.calls.append(("Attach", request))
        async for event in self._stream(context, self.answer_to(request), request.from_token, None):
            yield generation_pb2.AttachResponse(event=event)

    def answer_to(self, request: Any) -> Answer:
        """The answer to a call."""
        return self.answer

    async def _stream(
        self, context: Context, answer: Answer, from_token: int, request_id: str | None
    ) -> AsyncIterator[Any]:
        step = self.script.popleft() if self.script else Attempt()
        if isinstance(step, Refusal):
            await step.send(context)
        cuts = step.cuts if isinstance(step, Attempt) else ()
        place = 0
        try:
            for place, event in enumerate(answer.events(cuts, from_token, request_id)):
                if place == 2 and self.ends_early:
                    self.ends_early -= 1
                    return
                await self._before(step, place, context)
                yield event
            await self._before(step, place + 1, context)
        except (asyncio.CancelledError, GeneratorExit):
            self.hung_up += 1
            raise

    async def _before(self, step: Step, place: int, context: Context) -> None:
        """What happens before the event at a place."""
        if isinstance(step, Broken) and place == step.after:
            await step.refusal.send(context)
        if isinstance(step, Attempt) and place == step.breaks_after:
            await BREAK.send(context)
        if isinstance(step, Held) and place == step.after:
            await self.released.wait()

    async def BatchGenerate(self, request: Any, context: Context) -> AsyncIterator[Any]:
        self.calls.append(("BatchGenerate", request))
        step = self.script.popleft() if self.script else Attempt()
        if isinstance(step, Refusal):
            await step.send(context)
        assert self.batch is not None
        sent = 0
        async for response in self.batch(request):
            await self._before(step, sent, context)
            yield response
            sent += 1
        await self._before(step, sent, context)

    async def _unary(self, method: str, request: Any, context: Context, default: Message) -> Any:
        self.calls.append((method, request))
        planned = self.unary.get(method)
        answer = planned.popleft() if planned else default
        if isinstance(answer, Refusal):
            await answer.send(context)
        return answer

    async def Cancel(self, request: Any, context: Context) -> Any:
        return await self._unary("Cancel", request, context, requests_pb2.CancelResponse(cancelled=True))

    async def GetRequest(self, request: Any, context: Context) -> Any:
        summary = requests_pb2.RequestSummary(
            id="i", state=requests_pb2.REQUEST_STATE_RUNNING, prompt_tokens=3, output_tokens=2, created=1.5
        )
        return await self._unary("GetRequest", request, context, requests_pb2.GetRequestResponse(request=summary))

    async def ListRequests(self, request: Any, context: Context) -> Any:
        waiting = requests_pb2.RequestSummary(id="w", request_id="mine", state=requests_pb2.REQUEST_STATE_WAITING)
        ended = requests_pb2.RequestSummary(
            id="e", state=requests_pb2.REQUEST_STATE_FINISHED, reason=generation_pb2.END_REASON_STOP, finished=2.5
        )
        answer = requests_pb2.ListRequestsResponse(requests=[waiting, ended], total=7)
        return await self._unary("ListRequests", request, context, answer)

    async def Tokenize(self, request: Any, context: Context) -> Any:
        answer = tokens_pb2.TokenizeResponse(ids=map(ord, request.text))
        return await self._unary("Tokenize", request, context, answer)

    async def Detokenize(self, request: Any, context: Context) -> Any:
        answer = tokens_pb2.DetokenizeResponse(text="".join(map(chr, request.ids)))
        return await self._unary("Detokenize", request, context, answer)

    async def RenderPrompt(self, request: Any, context: Context) -> Any:
        return await self._unary("RenderPrompt", request, context, tokens_pb2.RenderPromptResponse(text="<x>", ids=[1]))

    async def ListModels(self, request: Any, context: Context) -> Any:
        return await self._unary("ListModels", request, context, server_pb2.ListModelsResponse(models=[model()]))

    async def GetModel(self, request: Any, context: Context) -> Any:
        return await self._unary("GetModel", request, context, server_pb2.GetModelResponse(model=model()))

    async def GetServerInfo(self, request: Any, context: Context) -> Any:
        limits = server_pb2.Limits(max_requests=10, default_max_tokens=1024, max_message_bytes=16 << 20, max_batch=256)
        answer = server_pb2.GetServerInfoResponse(version="1", started=3.5, limits=limits, door="door-0")
        return await self._unary("GetServerInfo", request, context, answer)

    async def GetLoad(self, request: Any, context: Context) -> Any:
        answer = server_pb2.GetLoadResponse(running=1, waiting=2, in_flight=3, blocks=100, free_blocks=90, age=0.5)
        return await self._unary("GetLoad", request, context, answer)


def model() -> server_pb2.Model:
    """A model."""
    described = server_pb2.Model(
        name="toy", revision="main", max_length=2048, vocabulary=500, eos_token_ids=[2], chat=True, ready=True
    )
    described.defaults.temperature = 0.5
    return described
