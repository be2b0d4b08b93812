"""The sequences of one request: samples that share its prompt, computed once.

```
 admitted        all of the prompt but its last token    forked: each feeds that token itself
 first output    ──────────────────────────────────────┬─► samples with its own seed, into a block of its own
                 (there it waits to be forked)         ├─► output 1
                                                       └─► output 2 …
```

Each feeds the prompt's last token itself, so that each samples its own first one. The blocks in front of it are shared; a
partial one is copied for whoever writes into it while others name it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from blockmgr.core.messages import Child, Fork, Forked
from blockmgr.core.states import FinishReason, Refusal
from executor.engine.request import Request
from executor.engine.sequence import Sequence
from executor.outputs import MOST_OUTPUTS, uuid_of

NOT_NOW = frozenset({Refusal.BUSY, Refusal.NO_SLOTS})
"""Refusals after which a fork is asked for again."""


@dataclass(eq=False, slots=True)
class Family:
    """What lives of a request with several outputs. ``request`` is that of its first one, or of any where that has ended."""

    request: Request
    members: list[Sequence] = field(default_factory=list)
    """Those that have not ended, in the order in which they came."""
    born: bool = False
    """Whether it was forked."""
    asked: bool = False
    """Whether the fork is in an unanswered turn."""
    refused: bool = False
    """Whether the fork was refused for now."""
    past_tokens: int = 0
    """Tokens of those outputs that have ended."""

    @property
    def unborn(self) -> int:
        """Sequences that are still to come of it."""
        return 0 if self.born else self.request.outputs - 1

    @property
    def alive(self) -> list[Sequence]:
        """Those that go on."""
        return [one for one in self.members if one.ending is None]

    @property
    def may_fork(self) -> bool:
        """Whether all that is to be shared is computed, and the manager knows it, or hears it before it is asked to fork."""
        if self.born or self.asked:
            return False
        (first,) = self.members
        ready = first.launched == first.computed == first.prompt - 1 and not first.in_flight and not first.copied
        return ready and first.ending is None and not first.awaiting and not first.parked

    def fork(self) -> Fork:
        """What asks for the others."""
        self.asked, self.refused = True, False
        (first,) = self.members
        others = [self.request.sibling(output) for output in range(1, self.request.outputs)]
        return Fork(first.handle, [Child(one.uuid, one.kept.SerializeToString()) for one in others])

    def take(self, forked: Forked) -> list[Sequence]:
        """What became of the fork: the sequences that have come of it."""
        self.asked = False
        if forked.refusal in NOT_NOW:
            self.refused = True
            return []
        self.settle()
        # None, if an earlier life forked it and the others have ended since.
        return [self._child(output, handle) for output, handle in enumerate(forked.handles, 1)]

    def settle(self) -> None:
        """It is forked: the first one goes on."""
        self.born = True
        for one in self.members:
            one.limit = one.request.longest - 1
            # Nothing may be written before a reservation is answered: its last block is shared.
            one.frozen = True

    def _child(self, output: int, handle: int) -> Sequence:
        """A sequence that has all that the first one has computed, and ends if that is about to."""
        first = self.members[0]
        at = first.launched
        return Sequence(
            self.request.sibling(output),
            handle,
            first.tokens[: first.prompt],
            launched=at,
            computed=at,
            recorded=first.prompt,
            reported=(at, at),
            cached_tokens=first.cached_tokens,
            frozen=True,
            ending=first.ending,
        )


class Families:
    """The families that live here, by the UUID of the first output. Requests with one output have none."""

    def __init__(self) -> None:
        self._by_root: dict[bytes, Family] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._by_root.values())

    @property
    def unborn(self) -> int:
        """Sequences that are still to come of those that are here."""
        return sum(family.unborn for family in self)

    @property
    def wait(self) -> bool:
        """Whether a fork was refused for now."""
        return any(family.refused for family in self)

    def of(self, sequence: Sequence) -> Family | None:
        """A sequence's family."""
        return self._by_root.get(sequence.request.root)

    def kin(self, sequence: Sequence) -> list[Sequence]:
        """A sequence and all that share its prompt, without those that end."""
        family = self.of(sequence)
        return family.alive if family is not None else [sequence] if sequence.ending is None else []

    def add(self, sequence: Sequence) -> None:
        """A sequence is here. The first of a request with several outputs waits where it is to be forked."""
        request = sequence.request
        if request.outputs == 1:
            return
        family = self._by_root.setdefault(request.root, Family(request))
        family.members.append(sequence)
        if not (request.output or family.born):
            family.request = request
            sequence.limit = sequence.prompt - 1

    def settle(self) -> None:
        """All that an earlier life has left is here: who is past the fork, or has others beside it, was forked."""
        for family in self:
            first = family.members[0]
            alone = len(family.members) == 1 and not first.request.output
            if not alone or max(first.launched + 1, len(first.tokens)) > first.prompt:
                family.settle()

    def remove(self, sequence: Sequence) -> list[bytes]:
        """A sequence has ended. Returns the UUIDs of those that will never come, because they were not forked yet."""
        family = self.of(sequence)
        if family is None:
            return []
        family.members.remove(sequence)
        family.past_tokens += len(sequence.tokens) - sequence.prompt
        if family.members:
            return []
        del self._by_root[sequence.request.root]
        return [uuid_of(sequence.request.root, output) for output in range(1, family.unborn + 1)]

    def expecting(self, uuid: bytes) -> bool:
        """Whether a sequence of this UUID is still to come of one that is here."""
        return is_output(uuid, self._unborn)

    def _unborn(self, root: bytes) -> Request | None:
        family = self._by_root.get(root)
        return None if family is None or family.born else family.request


def is_output(uuid: bytes, find: Callable[[bytes], Request | None]) -> bool:
    """Whether a UUID is that of an output, not the first, of a request that ``find`` finds by the UUID of the first."""
    for output in range(1, MOST_OUTPUTS):
        request = find(uuid_of(uuid, -output))
        if request is not None:
            return output < request.outputs
    return False


def end_all(sequences: list[Sequence], reason: FinishReason) -> None:
    """End sequences for a reason from outside."""
    for one in sequences:
        one.end(reason)
