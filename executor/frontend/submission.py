"""A request on its way to an engine."""

import time
import uuid

from executor.frontend import parameters, validation
from executor.frontend.door import Door
from executor.frontend.engine_link import EngineLink
from executor.frontend.engines import model_of, pool_of
from executor.frontend.errors import InvalidRequest, NotServing
from executor.frontend.generation import Generation
from executor.frontend.models import Model
from executor.frontend.prompts import MANY, PIECE, tokens_of
from executor.frontend.sequence import Sequence
from executor.frontend.stopwatch import Arrival
from pagehold.engine.v1 import request_pb2, submit_pb2
from pagehold.inference.v1 import generation_pb2

NO_DIGEST = b""

LARGEST_START = 15 << 20
"""Bytes of a prompt on its way to the engine: a message that the engine's server refuses would end the stream of all."""


async def submit(door: Door, request: generation_pb2.GenerateRequest, arrived: Arrival) -> Generation:
    """Check a request, tokenise its prompt, and send it to an engine. Whoever calls has taken a place for it.

    Raises whatever is wrong with it; nothing was begun then.
    """
    models = door.models
    model = await models.find(request.model if request.HasField("model") else None)
    body = await models.off_loop_if(len(request.prompt.ids.ids) > MANY, _examine, request, model)
    door.registry.check(request.request_id, body)
    prompt = await tokens_of(models, model, request.prompt)
    validation.check_length(len(prompt), request, model.description.max_length)
    settled = parameters.settle(request, model.description, len(prompt), door.settings.default_max_tokens, arrived.time)
    parameters.check_size(settled, model.pool.geometry.request_bytes)
    start = await models.off_loop_if(len(prompt) > MANY, _start_of, settled, prompt, body)
    return _send(door, model, start, arrived)


def _examine(request: generation_pb2.GenerateRequest, model: Model) -> bytes:
    """Check all that can be checked before the prompt is tokenised; the digest of the request."""
    validation.check_generate(request, model.vocabulary, model.description.max_length)
    return parameters.body_digest(request)


def _start_of(settled: request_pb2.Request, prompt: list[int], body: bytes) -> submit_pb2.Start:
    name = settled.request_id
    start = submit_pb2.Start(
        uuid=uuid.uuid4().bytes,
        request=settled,
        caller=parameters.caller_digest(name) if name else NO_DIGEST,
        body=body,
    )
    for first in range(0, len(prompt), PIECE):
        start.prompt.extend(prompt[first : first + PIECE])
    if (size := start.ByteSize()) > LARGEST_START:
        raise InvalidRequest.of("prompt", f"takes {size} bytes as tokens, but may take at most {LARGEST_START}")
    return start


def _send(door: Door, model: Model, start: submit_pb2.Start, arrived: Arrival) -> Generation:
    if door.is_leaving:
        raise NotServing("this front door stops")
    link = choose_engine(door, model.name)
    sequence = Sequence(
        uuid=start.uuid,
        pool=pool_of(link) or model.pool.name,
        request=start.request,
        prompt_tokens=len(start.prompt),
        start=start,
    )
    door.registry.add(sequence, start.body)
    link.add(sequence)
    return Generation(door, sequence, model, arrived=arrived, detached=start.request.detached)


def choose_engine(door: Door, model: str) -> EngineLink:
    """The least busy engine of a model; or one that was lost just now, which will be told once it is back.

    Raises NotServing where there is neither.
    """
    ready = door.engines.ready(model)
    admitting = [link for link in ready if not link.load.draining]
    if admitting:
        return admitting[0]
    if ready:
        raise NotServing("every engine of this model is draining")
    latest = time.monotonic() - door.settings.lost_seconds
    lost = [
        link for link in door.engines if model_of(link) == model and not link.connected and link.lost_since > latest
    ]
    if not lost:
        raise NotServing("no engine of this model is ready")
    return max(lost, key=lambda link: link.lost_since)
