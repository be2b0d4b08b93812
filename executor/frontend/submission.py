"""A request on its way to an engine."""

import time
import uuid
from dataclasses import dataclass

from executor.found_outputs import delivered_uuids, is_search
from executor.frontend import parameters, validation
from executor.frontend.door import Door
from executor.frontend.engine_link import EngineLink
from executor.frontend.engines import model_of, pool_of
from executor.frontend.errors import InvalidRequest, NotServing
from executor.frontend.generation import Generation
from executor.frontend.models import Model
from executor.frontend.prompts import tokens_of
from executor.frontend.search import generation_of
from executor.frontend.sequence import Sequence
from executor.frontend.stopwatch import Arrival
from executor.frontend.wire import written
from executor.outputs import count_of
from pagehold.engine.v1 import request_pb2, submit_pb2
from pagehold.inference.v1 import generation_pb2

LARGEST_START = 15 << 20
"""Bytes of a prompt on its way to the engine: a message that the engine's server refuses would end the stream of all."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with everything filled in, ready to be sent. ``start`` is the message to the engine, as bytes."""

    uuid: bytes
    request: request_pb2.Request
    prompt_tokens: int
    body: bytes
    start: bytes


async def submit(
    door: Door, request: generation_pb2.GenerateRequest, arrived: Arrival, is_large: bool = False
) -> Generation:
    """Check a request, tokenise its prompt, and send it to an engine. Whoever calls has taken a place for it.

    ``is_large``: it came in a large message. Raises whatever is wrong with it; nothing was begun then.
    """
    model = await door.models.find(request.model if request.HasField("model") else None)
    # To tokenise takes long, however small the text is.
    takes_long = is_large or request.prompt.WhichOneof("content") in ("text", "chat")
    default = door.settings.default_max_tokens
    prepared = await door.threads.run_if(takes_long, prepare, request, model, default, arrived.time)
    return _send(door, model, prepared, arrived)


def prepare(request: generation_pb2.GenerateRequest, model: Model, default_max_tokens: int, arrived: float) -> Prepared:
    """Check, tokenise and write a request. Takes as long as the request is. Raises what is wrong with it."""
    validation.check_generate(request, model.limits)
    body = parameters.body_digest(request)
    prompt = tokens_of(model, request.prompt)
    validation.check_length(len(prompt), request, model.description.max_length)
    settled = parameters.settle(request, model.description, len(prompt), default_max_tokens, arrived)
    parameters.check_size(settled, model.pool.geometry.request_bytes)
    name = settled.request_id
    head = submit_pb2.Start(
        uuid=uuid.uuid4().bytes,
        request=settled,
        caller=parameters.caller_digest(name) if name else b"",
        body=body,
    )
    start = head.SerializeToString() + written(submit_pb2.Start, "prompt", prompt)
    if len(start) > LARGEST_START:
        text = f"takes {len(start)} bytes as tokens, but may take at most {LARGEST_START}"
        raise InvalidRequest.of("prompt", text)
    return Prepared(head.uuid, settled, len(prompt), body, start)


def _send(door: Door, model: Model, prepared: Prepared, arrived: Arrival) -> Generation:
    if door.is_leaving:
        raise NotServing("this front door stops")
    link = choose_engine(door, model.name)
    _check_outputs(prepared.request, link)
    first = Sequence(
        uuid=prepared.uuid,
        pool=pool_of(link) or model.pool.name,
        request=prepared.request,
        prompt_tokens=prepared.prompt_tokens,
        start=prepared.start,
    )
    door.registry.add(first, prepared.body)
    outputs = delivered_uuids(first.uuid, first.request)
    sequences = [first, *(Sequence.other_output(first, output) for output in range(1, len(outputs)))]
    # The first one first: it is what the engine knows the others by.
    for sequence in sequences:
        link.add(sequence)
    return generation_of(door, sequences, model, arrived=arrived, detached=prepared.request.detached)


def _check_outputs(request: request_pb2.Request, link: EngineLink) -> None:
    """Outputs of one request are computed side by side. Raises InvalidRequest for more than that."""
    outputs = count_of(request)
    most = link.description.max_running if link.description is not None else outputs
    if outputs > most:
        field = "beam_search.beam_width" if is_search(request) else "sampling.n"
        raise InvalidRequest.of(
            field, f"is {outputs}, but must lie in 1..{most}, as many as the engine computes at once"
        )


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
