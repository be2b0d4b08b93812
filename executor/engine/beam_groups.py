"""The beam searches that live here: what each has found, and what it decided to do next.

```
 a step of every beam ─► what may follow each ─► decided ─► ended outputs are kept ─► beams change places ─► a step …
                                                    └────► done: what was found is kept ─► all of it ends
```

All that a search knows lies in the ledger: the beams' tokens and scores in their rows, each output that has ended in a row of
its own, without blocks. Only what may follow the beams does not; it is computed again, to the same bits, so an engine that
takes a search up decides what was decided before. What the ledger has of that decision already is known by its UUID.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from blockmgr.core.messages import Child, Fork, Reorder
from blockmgr.core.states import FinishReason
from executor.engine.beams import Advance, Candidates, EarlyStopping, Hypothesis, Rules, advance, best
from executor.engine.request import Request
from executor.engine.sequence import Sequence
from executor.found_outputs import ended_uuid, found_uuids, kept_request
from pagehold.engine.v1 import request_pb2

STOPPING = {
    request_pb2.EARLY_STOPPING_UNSPECIFIED: EarlyStopping.OFF,
    request_pb2.EARLY_STOPPING_OFF: EarlyStopping.OFF,
    request_pb2.EARLY_STOPPING_ON: EarlyStopping.ON,
    request_pb2.EARLY_STOPPING_NEVER: EarlyStopping.NEVER,
}

AT_ONCE = frozenset({FinishReason.CANCELLED, FinishReason.INTERNAL, FinishReason.UNAVAILABLE})
"""Ends after which nobody asks what was found."""


def rules_of(request: Request, held_back: frozenset[int] = frozenset()) -> Rules:
    """How a request searches. ``held_back``: ids that end a sequence whatever its request says, for ``min_tokens``."""
    parameters, beams = request.parameters, request.kept.beams
    return Rules(
        width=request.outputs,
        length_penalty=beams.length_penalty,
        early_stopping=STOPPING[beams.early_stopping],
        end_ids=request.end_ids,
        max_tokens=parameters.max_tokens,
        min_tokens=parameters.min_tokens,
        held_back=request.end_ids | held_back,
    )


@dataclass(eq=False, slots=True)
class BeamGroup:
    """One search. ``first`` is the UUID of its first beam, ``request`` what that was admitted with."""

    first: bytes
    request: Request
    rules: Rules
    beams: dict[int, Sequence] = field(default_factory=dict)
    """By place."""
    scores: dict[int, float] = field(default_factory=dict)
    """Sum of the log-probabilities of each beam's output, by place."""
    candidates: dict[int, Candidates] = field(default_factory=dict)
    """What may follow each beam, by place, as far as it is computed."""
    kept: dict[Hypothesis, int] = field(default_factory=dict)
    """Outputs that have ended, and the handle of each in the ledger."""
    ahead: Advance | None = None
    """What was decided and is not done yet."""
    results: list[tuple[Hypothesis, FinishReason]] | None = None
    """What was found, the best first, and why each ended. None: it is still being looked for."""
    found: dict[int, int] = field(default_factory=dict)
    """Handles of what was found and is kept, by place."""
    results_kept: bool = False
    """Whether all results are."""
    refused: bool = False
    """There was no slot for what is to be kept: it is asked for again."""

    # -- deciding ----------------------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether every beam is here."""
        return len(self.beams) == self.rules.width

    @property
    def members(self) -> list[Sequence]:
        """The beams, by place."""
        return [self.beams[place] for place in sorted(self.beams)]

    def decide(self) -> None:
        """Decide what becomes of the beams, once it is known what may follow each."""
        if self.ahead is None and self.results is None and self.is_whole and len(self.candidates) == self.rules.width:
            places = range(self.rules.width)
            length = len(self.beams[0].tokens)
            before = [one for one in self.kept if len(one.tokens) < length + 1 - self.beams[0].prompt]
            self.ahead = advance(
                self.rules,
                [self._output(place) for place in places],
                [self.scores.get(place, 0.0) for place in places],
                best(before, self.rules.width),
                [self.candidates[place] for place in places],
            )
            if self.ahead.is_done:
                self.results = [(one, self._reason(one)) for one in self.ahead.hypotheses]

    def _output(self, place: int) -> list[int]:
        beam = self.beams[place]
        return beam.tokens[beam.prompt :]

    def _reason(self, found: Hypothesis) -> FinishReason:
        ended = bool(found.tokens) and found.tokens[-1] in self.rules.end_ids
        return FinishReason.STOP if ended else FinishReason.LENGTH

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def ending(self) -> Sequence | None:
        """A beam that ends for a reason from outside, and the whole search with it."""
        return next((one for one in self.members if one.ending is not None), None)

    def close(self) -> None:
        """It ends for a reason from outside: with the best that there is, beams that might have gone on included."""
        ending = self.ending
        if ending is None or self.results is not None:
            return
        for one in self.members:
            one.end(ending.ending or FinishReason.INTERNAL)
        reason = ending.ending or FinishReason.INTERNAL
        length = len(ending.tokens) - ending.prompt
        going = [
            Hypothesis(tuple(self._output(place)), self.rules.rank(self.scores.get(place, 0.0), length))
            for place in self.beams
            if length
        ]
        cut_short = set(going)
        if reason in AT_ONCE:
            self.results = []
        else:
            outputs = best([*self.kept, *going], self.rules.width)
            self.results = [(one, reason if one in cut_short else self._reason(one)) for one in outputs]

    @property
    def reason(self) -> FinishReason:
        """Why it ended, once it has results."""
        ending = self.ending
        if ending is not None:
            return ending.ending or FinishReason.INTERNAL
        return self.results[0][1] if self.results else FinishReason.INTERNAL

    # -- what is said to the manager -----------------------------------------------------------------------------------

    @property
    def to_keep(self) -> list[Hypothesis]:
        """Outputs that have ended and are not kept yet."""
        return [one for _, one in self.ahead.ended if one not in self.kept] if self.ahead is not None else []

    def keep(self) -> Fork:
        """What has those kept."""
        request = kept_request(self.request.kept, self.first, request_pb2.BEAM_ROLE_ENDED).SerializeToString()
        children = [_child(ended_uuid(self.first, one.tokens), request, one) for one in self.to_keep]
        return Fork(self._parent, children)

    def keep_results(self) -> Fork:
        """What has those kept that were found."""
        uuids = found_uuids(self.first, self.request.kept)
        children = []
        for place, (one, _) in enumerate(self.results or []):
            kept = kept_request(self.request.kept, self.first, request_pb2.BEAM_ROLE_FOUND, place)
            children.append(_child(uuids[place], kept.SerializeToString(), one))
        return Fork(self._parent, children)

    @property
    def _parent(self) -> int:
        return self.members[0].handle

    def move(self) -> tuple[Reorder, list[int]]:
        """What has the beams change places, and the handles of the outputs that are no longer among the best."""
        assert self.ahead is not None
        beams = self.ahead.beams
        reorder = Reorder(
            np.array([one.handle for one in self.members], dtype=np.int64),
            np.array([beam.parent for beam in beams], dtype=np.int64),
            np.array([beam.token for beam in beams], dtype=np.int64),
            np.array([beam.score for beam in beams]),
        )
        return reorder, [handle for one, handle in self.kept.items() if one not in self.ahead.hypotheses]

    def moved(self) -> None:
        """The beams have changed places."""
        assert self.ahead is not None
        before = {place: beam.tokens for place, beam in self.beams.items()}
        heirs = Counter(chosen.parent for chosen in self.ahead.beams)
        for place, chosen in enumerate(self.ahead.beams):
            beam = self.beams[place]
            heirs[chosen.parent] -= 1
            # Prompts may be long: the last heir goes on with its parent's list, and only those before it copy that.
            beam.tokens = before[chosen.parent].copy() if heirs[chosen.parent] else before[chosen.parent]
            beam.tokens.append(chosen.token)
            beam.recorded = len(beam.tokens)
            self.scores[place] = chosen.score
        self.kept = {one: handle for one, handle in self.kept.items() if one in self.ahead.hypotheses}
        self.candidates = {}
        self.ahead = None


def _child(uuid: bytes, request: bytes, output: Hypothesis) -> Child:
    return Child(uuid, request, output.rank, np.array(output.tokens, dtype=np.int32))


class BeamGroups:
    """The searches of an engine, by the UUID of the first beam."""

    def __init__(self) -> None:
        self.held_back: frozenset[int] = frozenset()
        """Ids that end a sequence whatever its request says."""
        self._by_first: dict[bytes, BeamGroup] = {}

    def __iter__(self) -> Iterator[BeamGroup]:
        return iter(list(self._by_first.values()))

    @property
    def wait(self) -> bool:
        """Whether one waits for a slot."""
        return any(group.refused for group in self)

    def add(self, sequence: Sequence) -> None:
        """A sequence is here; if it is a beam, it belongs to its search."""
        if sequence.is_beam:
            group = self._group(sequence.request)
            group.beams[sequence.request.output] = sequence
            sequence.ranking = group.rules.candidates

    def restore(self, request: Request, score: float, output: list[int], handle: int) -> None:
        """An earlier life has left a beam, whose sequence is added too, or an output of a search."""
        group = self._group(request)
        if request.kept.beams.role == request_pb2.BEAM_ROLE_UNSPECIFIED:
            group.scores[request.output] = score
        elif request.kept.beams.role == request_pb2.BEAM_ROLE_ENDED:
            group.kept[Hypothesis(tuple(output), score)] = handle
        else:
            group.found[request.output] = handle

    def _group(self, request: Request) -> BeamGroup:
        group = self._by_first.get(request.root)
        if group is None:
            group = BeamGroup(request.root, request, rules_of(request, self.held_back))
            self._by_first[request.root] = group
        return group

    def note(self, sequence: Sequence, candidates: Candidates) -> None:
        """What may follow a beam is computed."""
        group = self._by_first.get(sequence.request.root)
        if group is not None and sequence.launched == len(sequence.tokens):
            group.candidates[sequence.request.output] = candidates

    def drop(self, group: BeamGroup) -> None:
        """It has ended, and the manager knows it."""
        self._by_first.pop(group.first, None)
