"""What a request asks for, with everything filled in that it does not say: for the engine, and as an echo.

An absent sampling parameter takes the value of the model's generation_config.json, and behind that the one that changes
nothing. A model whose configuration says `do_sample: false` is meant to be greedy: there an absent temperature is 0, and
the configuration's filters, which it does not use itself, do not count either.
"""

import hashlib
import secrets
from dataclasses import dataclass

from executor.found_outputs import kept_request
from executor.frontend.errors import InvalidRequest
from executor.frontend.wire import written
from executor.outputs import MOST_OUTPUTS, UUID_BYTES, count_of, output_of, seed_of
from pagehold.engine.v1 import description_pb2, request_pb2
from pagehold.inference.v1 import generation_pb2, parameters_pb2, prompt_pb2

DIGEST_BYTES = 16

LENGTH_PENALTY = 1.0
"""Of a beam search that names none."""

STOPPING = {
    parameters_pb2.EARLY_STOPPING_OFF: request_pb2.EARLY_STOPPING_OFF,
    parameters_pb2.EARLY_STOPPING_ON: request_pb2.EARLY_STOPPING_ON,
    parameters_pb2.EARLY_STOPPING_NEVER: request_pb2.EARLY_STOPPING_NEVER,
}
"""When a beam search ends: as callers say it, and as it is kept."""


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What counts where a request says nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @classmethod
    def of(cls, model: description_pb2.ModelDescription) -> "SamplingDefaults":
        """The defaults of a model."""
        if model.HasField("do_sample") and not model.do_sample:
            return cls(temperature=0.0)
        names = ("temperature", "top_k", "top_p", "min_p")
        return cls(**{name: getattr(model, name) for name in names if model.HasField(name)})

    def message(self) -> parameters_pb2.SamplingParameters:
        """For the description of a model."""
        return parameters_pb2.SamplingParameters(
            temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p
        )


def settle(
    request: generation_pb2.GenerateRequest,
    model: description_pb2.ModelDescription,
    prompt_tokens: int,
    default_max_tokens: int,
    arrived: float,
) -> request_pb2.Request:
    """The request as it is kept in the ledger. ``arrived`` in seconds since 1970. It was checked before."""
    settled = request_pb2.Request(
        parameters=_parameters(request, model, prompt_tokens, default_max_tokens),
        request_id=request.request_id,
        model=model.name,
        stop=request.stopping.stop,
        cache_salt=request.cache.salt,
        bypass_cache=request.cache.bypass,
        no_store=request.cache.no_store,
        priority=request.priority,
        detached=request.detached,
        arrived=arrived,
        ignore_eos=request.stopping.ignore_eos,
        stop_token_ids=request.stopping.stop_token_ids,
        outputs=request.beam_search.beam_width if is_search(request) else request.sampling.n,
        beams=_beams(request.beam_search) if is_search(request) else None,
    )
    if request.HasField("time_budget"):
        settled.parameters.deadline = arrived + request.time_budget
    return settled


def is_search(request: generation_pb2.GenerateRequest) -> bool:
    """Whether a caller asks for a beam search."""
    return request.HasField("beam_search")


def _beams(asked: parameters_pb2.BeamSearchParameters) -> request_pb2.BeamSearch:
    penalty = asked.length_penalty if asked.HasField("length_penalty") else LENGTH_PENALTY
    stopping = asked.early_stopping or parameters_pb2.EARLY_STOPPING_OFF
    return request_pb2.BeamSearch(length_penalty=penalty, early_stopping=STOPPING[stopping])


def _parameters(
    request: generation_pb2.GenerateRequest,
    model: description_pb2.ModelDescription,
    prompt_tokens: int,
    default_max_tokens: int,
) -> request_pb2.Parameters:
    sampling, stopping = request.sampling, request.stopping
    defaults = SamplingDefaults(temperature=0.0) if is_search(request) else SamplingDefaults.of(model)
    top_k = sampling.top_k if sampling.HasField("top_k") else defaults.top_k
    left = model.max_length - prompt_tokens
    most = stopping.max_tokens if stopping.HasField("max_tokens") else max(default_max_tokens, stopping.min_tokens)
    end_ids = {*(() if stopping.ignore_eos else model.eos_token_ids), *stopping.stop_token_ids}
    return request_pb2.Parameters(
        temperature=sampling.temperature if sampling.HasField("temperature") else defaults.temperature,
        top_k=top_k if 0 < top_k < model.vocabulary else 0,
        top_p=sampling.top_p if sampling.HasField("top_p") else defaults.top_p,
        min_p=sampling.min_p if sampling.HasField("min_p") else defaults.min_p,
        seed=sampling.seed if sampling.HasField("seed") else secrets.randbits(64),
        max_tokens=min(most, left),
        min_tokens=stopping.min_tokens,
        end_ids=sorted(end_ids),
    )


def check_size(settled: request_pb2.Request, limit: int) -> bytes:
    """The request as it is kept with a sequence, as bytes. Raises InvalidRequest where it is larger than what is kept."""
    # Of several outputs each but the first is kept with something of its own.
    kept = settled if settled.outputs <= 1 else output_of(settled, bytes(UUID_BYTES), MOST_OUTPUTS - 1)
    if settled.HasField("beams"):
        kept = kept_request(settled, bytes(UUID_BYTES), request_pb2.BEAM_ROLE_FOUND, settled.outputs)
    data = kept.SerializeToString(deterministic=True)
    if len(data) > limit:
        text = f"and everything else of the request take {len(data)} bytes, but {limit} are kept with a sequence"
        raise InvalidRequest.of("stopping.stop", text)
    return data


def sampling_of(settled: request_pb2.Request) -> parameters_pb2.SamplingParameters:
    """The echo of what is in effect."""
    parameters = settled.parameters
    return parameters_pb2.SamplingParameters(
        temperature=parameters.temperature,
        top_k=parameters.top_k,
        top_p=parameters.top_p,
        min_p=parameters.min_p,
        seed=parameters.seed,
        n=count_of(settled),
    )


def seeds_of(settled: request_pb2.Request) -> list[int]:
    """The seed of each output; of a beam search none, which draws nothing."""
    if settled.HasField("beams"):
        return []
    return [seed_of(settled.parameters.seed, output) for output in range(count_of(settled))]


def beam_search_of(settled: request_pb2.Request) -> parameters_pb2.BeamSearchParameters | None:
    """The echo of what is in effect. None: it is no beam search."""
    if not settled.HasField("beams"):
        return None
    return parameters_pb2.BeamSearchParameters(
        beam_width=settled.outputs,
        length_penalty=settled.beams.length_penalty,
        early_stopping={kept: asked for asked, kept in STOPPING.items()}[settled.beams.early_stopping],
    )


def stopping_of(settled: request_pb2.Request) -> parameters_pb2.StoppingParameters:
    """The echo of what is in effect."""
    return parameters_pb2.StoppingParameters(
        max_tokens=settled.parameters.max_tokens,
        min_tokens=settled.parameters.min_tokens,
        stop=settled.stop,
        stop_token_ids=settled.stop_token_ids,
        ignore_eos=settled.ignore_eos,
    )


def cache_of(settled: request_pb2.Request) -> parameters_pb2.CacheParameters:
    """The echo of what is in effect."""
    return parameters_pb2.CacheParameters(
        salt=settled.cache_salt, bypass=settled.bypass_cache, no_store=settled.no_store
    )


def body_digest(request: generation_pb2.GenerateRequest) -> bytes:
    """Digest, 16 bytes, of what a request says: the same request again has the same one, however it was written."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES, person=b"body")
    for field, value in request.ListFields():
        if field.message_type is None:
            said = repr(value).encode()
        elif field.name == "prompt" and value.HasField("ids"):
            said = written(prompt_pb2.TokenIds, "ids", value.ids.ids)
        else:
            said = value.SerializeToString(deterministic=True)
        digest.update(b"%d:%d:" % (field.number, len(said)))
        digest.update(said)
    return digest.digest()


def caller_digest(request_id: str) -> bytes:
    """Digest, 16 bytes, of a caller's name for a request; the same through whichever door it comes."""
    return hashlib.blake2b(request_id.encode(), digest_size=DIGEST_BYTES, person=b"caller").digest()
