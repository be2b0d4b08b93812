"""Where the tokens of an output are read: the ledger while it lives, and what came with its end after that."""

from collections.abc import Sequence as List

from executor.frontend.door import Door
from executor.frontend.errors import GenerationLost
from executor.frontend.sequence import End, Sequence


class RecordedTokens:
    """The recorded output tokens of one sequence."""

    def __init__(self, door: Door, sequence: Sequence) -> None:
        self._door, self._sequence = door, sequence

    async def after(self, taken: int, end: End | None) -> List[int]:
        """Those behind the first ``taken``; all there are if it has ended. Raises GenerationLost if they are gone."""
        sequence = self._sequence
        position = sequence.prompt_tokens + taken
        if end is None:
            return self._door.ledgers.tokens(sequence.pool, sequence.handle, position) if sequence.handle else ()
        if position >= end.tokens:
            return ()
        if position < end.tail_start:
            end = await self._kept()
        return end.tail[position - end.tail_start : end.tokens - end.tail_start]

    async def _kept(self) -> End:
        """The whole of a sequence that has ended, as the manager keeps it for a while."""
        sequence = self._sequence
        found = await self._door.manager.look_up(sequence.pool, uuid=sequence.uuid)
        if found is None or found.WhichOneof("found") != "finished":
            raise GenerationLost(sequence.output_tokens)
        return End.of(found.finished)
