"""What becomes of requests whose engine is gone, or does not know them: the manager is asked where they are."""

import asyncio
import time
from collections.abc import Iterable

import structlog

from executor.frontend.engine_link import EngineLink
from executor.frontend.engines import Engines, pool_of
from executor.frontend.errors import AlreadyExists, GenerationLost, NotServing
from executor.frontend.manager_link import ManagerLink
from executor.frontend.sequence import End, Sequence
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2

LOOK_SECONDS = 0.1
ASK_SECONDS = 1.0
"""How often the manager is asked about the same sequence."""

log = structlog.get_logger()


class Recovery:
    """Follows sequences to where they are. An engine that comes back is told of them by its link; this is for the rest."""

    def __init__(self, engines: Engines, manager: ManagerLink, lost_seconds: float) -> None:
        """Give a sequence up once it has been lost for ``lost_seconds``."""
        self._engines, self._manager, self._lost_seconds = engines, manager, lost_seconds
        self._asked: dict[bytes, float] = {}

    async def run(self) -> None:
        """Look after them until cancelled."""
        while True:
            unsure = [(link, sequence) for link in self._engines for sequence in _unsure(link.sequences.values())]
            self._asked = {sequence.uuid: self._asked.get(sequence.uuid, 0.0) for _, sequence in unsure}
            try:
                for link, sequence in [one for one in unsure if not self._give_up_if_due(*one)]:
                    await self._ask_if_due(link, sequence)
            except NotServing as error:
                # Nobody else can be asked about just now either.
                log.debug("manager away", error=str(error))
            except Exception:
                # Whatever it is about one sequence, the others still depend on this.
                log.exception("looking after sequences failed")
            await asyncio.sleep(LOOK_SECONDS)

    def _give_up_if_due(self, link: EngineLink, sequence: Sequence) -> bool:
        if _is_late(sequence):
            self._end_late(link, sequence)
        elif sequence.unsure_since is None or time.monotonic() - sequence.unsure_since <= self._lost_seconds:
            return False
        else:
            self._give_up(link, sequence)
        return True

    @staticmethod
    def _end_late(link: EngineLink, sequence: Sequence) -> None:
        """Its time is up while its engine is away: it ends with what has been delivered. The next engine sees it too."""
        link.drop(sequence)
        if not sequence.accepted:
            link.cancel(sequence.uuid)
        sequence.finish(End(states_pb2.FINISH_REASON_DEADLINE, tokens=0, tail_start=0, tail=()))

    async def _ask_if_due(self, link: EngineLink, sequence: Sequence) -> None:
        if time.monotonic() - self._asked[sequence.uuid] > ASK_SECONDS:
            self._asked[sequence.uuid] = time.monotonic()
            await self._ask(link, sequence)

    def _give_up(self, link: EngineLink, sequence: Sequence) -> None:
        """Nobody is kept waiting any longer. Whoever delivers it tells the manager that nobody does."""
        link.drop(sequence)
        if not sequence.accepted:
            link.cancel(sequence.uuid)
        text = f"engine {link.name} has been away for {self._lost_seconds:g} s"
        sequence.give_up(GenerationLost(sequence.output_tokens) if sequence.accepted else NotServing(text))

    async def _ask(self, link: EngineLink, sequence: Sequence) -> None:
        found = await self._manager.look_up(sequence.pool, uuid=sequence.uuid, seconds=ASK_SECONDS)
        if sequence.unsure_since is None or sequence.uuid not in link.sequences:
            return  # meanwhile its engine was heard of again, or it was given up
        if found is None:
            self._unknown(link, sequence)
        elif found.WhichOneof("found") == "finished":
            link.drop(sequence)
            sequence.finish(End.of(found.finished))
        else:
            self._follow(link, sequence, found.live)

    def _unknown(self, link: EngineLink, sequence: Sequence) -> None:
        """The manager does not know it, so it was never accepted, or is no longer kept."""
        if sequence.first is not None and not sequence.accepted:
            self._go_with_first(link, sequence, sequence.first)
        elif sequence.accepted:
            link.drop(sequence)
            sequence.fail(GenerationLost(sequence.output_tokens))
        elif sequence.disowned and link.connected:
            link.drop(sequence)
            name = sequence.request.request_id
            sequence.fail(AlreadyExists(f"request_id {name!r} is taken by a request in flight, or one that just ended"))
        elif not link.connected and (other := self._another(link, sequence)) is not None:
            self._move(link, other, sequence)

    def _go_with_first(self, link: EngineLink, sequence: Sequence, first: Sequence) -> None:
        """It is not forked yet: it is heard of where the first output of its request is, and ends with it."""
        to = self._engines.link_of(first)
        if sequence.go_with_first():
            link.drop(sequence)
        elif to is not None and first.unsure_since is None:
            sequence.disowned, sequence.unsure_since = False, None
            self._move(link, to, sequence)

    def _another(self, link: EngineLink, sequence: Sequence) -> EngineLink | None:
        """Another engine that can start what this one never accepted; if it did unheard, the manager will say so."""
        ready = self._engines.ready(sequence.request.model)
        return next((one for one in ready if one is not link and pool_of(one) == sequence.pool), None)

    def _follow(self, link: EngineLink, sequence: Sequence, live: sequence_pb2.LiveSequence) -> None:
        sequence.record(live.tokens)
        owner = self._engines.link(live.executor)
        if owner is not None and owner.connected and (owner is not link or sequence.disowned):
            self._move(link, owner, sequence)

    @staticmethod
    def _move(link: EngineLink, to: EngineLink, sequence: Sequence) -> None:
        log.info("following", id=sequence.id, engine=to.name, before=link.name)
        link.drop(sequence)
        to.add(sequence)


def _is_late(sequence: Sequence) -> bool:
    parameters = sequence.request.parameters
    return parameters.HasField("deadline") and time.time() > parameters.deadline


def _unsure(sequences: Iterable[Sequence]) -> list[Sequence]:
    return [sequence for sequence in sequences if sequence.unsure_since is not None]
