"""Where the tokens of an output are read: the ledger while it lives, and what came with its end after that."""

from collections.abc import Sequence as List

from executor.frontend.door import Door
from executor.frontend.errors import GenerationLost
from executor.frontend.sequence import End, Sequence


class RecordedTokens:
    """The recorded output tokens of one sequence."""

    def __init__(self, door: Door, sequence: Sequence) -> None:
        self._door, self._sequence = door, sequence
        self._archived: End | None = None

    async def after(self, taken: int, end: End | None, most: int) -> List[int]:
        """At most so many of those behind the first ``taken``. None: there are no more yet, or no more at all behind
        its ``end``. Raises GenerationLost if they are gone.
        """
        sequence = self._sequence
        position = sequence.prompt_tokens + taken
        if end is None:
            if not sequence.handle:
                return ()
            return self._door.ledgers.tokens(sequence.pool, sequence.handle, position, most)
        if position >= end.tokens:
            return ()
        if position < end.tail_start:
            end = self._archived = self._archived or await self._look_up()
        first = position - end.tail_start
        return end.tail[first : min(first + most, end.tokens - end.tail_start)]

    async def _look_up(self) -> End:
        """The whole of a sequence that has ended, as the manager keeps it for a while."""
        sequence = self._sequence
        found = await self._door.manager.look_up(sequence.pool, uuid=sequence.uuid)
        if found is None or found.WhichOneof("found") != "finished":
            raise GenerationLost(sequence.output_tokens)
        return End.of(found.finished)
