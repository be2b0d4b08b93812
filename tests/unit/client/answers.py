"""Answers that a scripted server gives, cut into deltas as a front door cuts them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hypothesis import strategies as st

from pagehold.inference.v1 import generation_pb2, parameters_pb2


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: the text that each of its tokens adds, and how many characters are held back behind each of them.

    What is held back comes with a later token, or at the end.
    """

    pieces: Sequence[str] = ("Par", "is", ".")
    held: Sequence[int] = ()
    prompt_tokens: int = 5
    progress: Sequence[int] = ()
    name: str = "a"
    stop: str | None = None

    @property
    def ids(self) -> list[int]:
        """An id for each piece, none twice."""
        return [100 + place for place in range(len(self.pieces))]

    @property
    def text(self) -> str:
        """All of the text."""
        return "".join(self.pieces)

    @property
    def id(self) -> str:
        """The server's id of the request."""
        return f"{sum(map(ord, self.name)):08x}-0000-4000-8000-000000000000"

    def said(self) -> list[int]:
        """Characters that have been sent once so many tokens have: from none to all."""
        full = [0, *accumulate(map(len, self.pieces))]
        held = [0, *self.held, *[0] * len(self.pieces)]
        return list(accumulate((max(0, length - back) for length, back in zip(full, held, strict=False)), max))

    def started(self, request_id: str | None = None) -> generation_pb2.GenerationEvent:
        """That it was accepted."""
        started = generation_pb2.Started(
            id=self.id, request_id=request_id, model="toy", prompt_tokens=self.prompt_tokens, cached_tokens=2
        )
        started.sampling.CopyFrom(
            parameters_pb2.SamplingParameters(temperature=0.5, top_k=-1, top_p=1, min_p=0, seed=2**64 - 1)
        )
        started.stopping.CopyFrom(
            parameters_pb2.StoppingParameters(max_tokens=9, min_tokens=0, stop=["x"], ignore_eos=False)
        )
        started.cache.CopyFrom(parameters_pb2.CacheParameters(salt="", bypass=False, no_store=False))
        return generation_pb2.GenerationEvent(started=started)

    def events(
        self, cuts: Sequence[int] = (), from_token: int = 0, request_id: str | None = None
    ) -> Iterator[generation_pb2.GenerationEvent]:
        """The whole stream; the deltas end at ``cuts``, numbers of tokens, or each behind one token if there are none."""
        yield self.started(request_id)
        for computed in self.progress:
            progress = generation_pb2.Progress(computed_tokens=computed, prompt_tokens=self.prompt_tokens)
            yield generation_pb2.GenerationEvent(progress=progress)
        most = len(self.pieces)
        yield from self._deltas(
            sorted({min(cut, most) for cut in (*cuts, most)} if cuts else range(most + 1)), from_token
        )
        usage = generation_pb2.Usage(prompt_tokens=self.prompt_tokens, cached_tokens=2, output_tokens=len(self.pieces))
        timings = generation_pb2.Timings(queued=100.25, first_token=100.5, total=101.5)
        finished = generation_pb2.Finished(
            output=0, reason=generation_pb2.END_REASON_LENGTH, usage=usage, timings=timings
        )
        if self.stop is not None:
            finished.reason, finished.stop = generation_pb2.END_REASON_STOP, self.stop
        yield generation_pb2.GenerationEvent(finished=finished)

    def _deltas(self, cuts: Sequence[int], from_token: int) -> Iterator[generation_pb2.GenerationEvent]:
        said, sent = self.said(), from_token
        characters = len("".join(self.pieces[:from_token]))
        for cut in cuts:
            until = max(characters, said[cut])
            if cut > sent or until > characters:
                yield _delta(sent, self.ids[sent:cut], self.text[characters:until])
            sent, characters = max(sent, cut), until
        if characters < len(self.text):
            yield _delta(sent, [], self.text[characters:])


@dataclass(frozen=True, slots=True)
class Several(Answer):
    """Several outputs of that text, whose deltas come in turn, each output ending before the one in front of it."""

    outputs: int = 3

    def events(
        self, cuts: Sequence[int] = (), from_token: int = 0, request_id: str | None = None
    ) -> Iterator[generation_pb2.GenerationEvent]:
        """The whole stream."""
        first, *deltas, last = list(Answer.events(self, cuts, from_token, request_id))
        first.started.sampling.n = self.outputs
        first.started.seeds.extend(range(70, 70 + self.outputs))
        yield first
        for event in deltas:
            yield from (self._of(event, output) for output in range(self.outputs))
        yield from (self._of(last, output) for output in reversed(range(self.outputs)))

    @staticmethod
    def _of(event: generation_pb2.GenerationEvent, output: int) -> generation_pb2.GenerationEvent:
        copy = generation_pb2.GenerationEvent()
        copy.CopyFrom(event)
        (copy.delta if copy.HasField("delta") else copy.finished).output = output
        return copy


def _delta(first: int, ids: Sequence[int], text: str) -> generation_pb2.GenerationEvent:
    return generation_pb2.GenerationEvent(delta=generation_pb2.Delta(output=0, first_token=first, ids=ids, text=text))


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one call for an answer goes: where its deltas end, and after how many events it breaks (None: never)."""

    cuts: Sequence[int] = ()
    breaks_after: int | None = None
    with_progress: bool = True


PIECES = st.lists(st.text(max_size=3) | st.sampled_from(["é", "日本", "\n", ""]), max_size=12)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Any answer, with text held back anywhere."""
    pieces = draw(PIECES)
    held = draw(st.lists(st.integers(0, 6), max_size=len(pieces)))
    progress = draw(st.lists(st.integers(1, 5), max_size=3, unique=True).map(sorted))
    return Answer(pieces, held, progress=progress, stop=draw(st.none() | st.just("END")))


@st.composite
def attempts(draw: st.DrawFn, most: int = 6) -> list[Attempt]:
    """Calls of which the last one does not break."""
    cuts = st.lists(st.integers(0, 12), max_size=6)
    breaking = st.builds(Attempt, cuts, st.integers(0, 12), st.booleans())
    return [*draw(st.lists(breaking, max_size=most)), Attempt(draw(cuts))]
