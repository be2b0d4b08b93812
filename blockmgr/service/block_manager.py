"""BlockManagerService: what executors and front doors call."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from blockmgr.core.errors import InvalidMessage, NotFound
from blockmgr.core.states import ExecutorState
from blockmgr.service.codec.enums import EXECUTOR_STATES
from blockmgr.service.contract import add_service, readable
from blockmgr.service.errors import NotServing, TooManyCalls, guarded
from blockmgr.service.manager import Manager
from blockmgr.service.pools import ManagedPool
from blockmgr.service.registration import Registrar
from blockmgr.service.sequences import finished_sequence, live_sequence
from blockmgr.service.session import Session, Turns
from blockmgr.service.specs import describe, spec_from
from pagehold.blockmgr.v1 import block_manager_service_pb2, executor_pb2, sequence_pb2, session_pb2
from pagehold.common.v1.version_pb2 import StateVersion

Context = grpc.aio.ServicerContext[Any, Any]
ID_BYTES = 16
LEASE_LIMITS = (0.5, 600.0)

SESSION_LIMIT = 1024
"""Sessions open at once: far more than there can be executors, since one that was cut off may linger."""


class BlockManagerServicer:
    """The methods, each a few lines: what they do is the manager's."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._registrar = Registrar(manager)
        self._turns = Turns(manager)
        self._sessions: set[Session] = set()
        self.why_not: Callable[[], NotServing | None] = lambda: None
        """Says why calls are refused just now, if they are: before its ledger is taken up, a manager knows nobody."""

    def _version(self, managed: ManagedPool | None = None) -> StateVersion:
        revision = managed.pool.revision if managed is not None else None
        return StateVersion(manager_epoch=self._manager.epoch, revision=revision)

    # -- executors ---------------------------------------------------------------------------------------------------

    async def RegisterExecutor(
        self, request: executor_pb2.RegisterExecutorRequest, context: Context
    ) -> executor_pb2.RegisterExecutorResponse:
        """Register an executor, and make its pool if it is the first."""
        if len(request.instance) != ID_BYTES or not any(request.instance):
            raise InvalidMessage(
                "instance", request.instance.hex() or "empty", f"must have {ID_BYTES} bytes, not all zero"
            )
        lease = request.lease_seconds if request.HasField("lease_seconds") else self._manager.settings.lease_seconds
        if not LEASE_LIMITS[0] <= lease <= LEASE_LIMITS[1]:
            raise InvalidMessage("lease_seconds", lease, f"must lie in {LEASE_LIMITS[0]}..{LEASE_LIMITS[1]}")
        managed, member, created, relabelled = await self._registrar.register(
            spec_from(request.pool), request.name, request.instance, lease, request.must_exist
        )
        executors = managed.pool.state.executors
        return executor_pb2.RegisterExecutorResponse(
            version=self._version(managed),
            epoch=member.epoch,
            lease_seconds=member.lease.seconds,
            pool=describe(managed),
            created=created,
            relabelled=relabelled,
            waiting_sequences=self._manager.waiting(managed, member.name),
            descriptor_socket=str(self._manager.settings.descriptor_socket),
            last_number=executors.number.get(executors.find(member.epoch)),
            zero_memory=managed.is_undefined,
        )

    async def ReportZeroed(
        self, request: executor_pb2.ReportZeroedRequest, context: Context
    ) -> executor_pb2.ReportZeroedResponse:
        """An executor has zeroed the pool's memory."""
        self._manager.hear(request.epoch)
        managed = self._manager.pool_of(request.epoch)
        managed.pool.set_zeroed()
        return executor_pb2.ReportZeroedResponse(version=self._version(managed))

    async def Session(self, _: Any, context: Context) -> None:
        """Exchange turns on one stream."""
        if len(self._sessions) >= SESSION_LIMIT:
            raise TooManyCalls("sessions", SESSION_LIMIT)
        session = Session(self._manager, self._turns, context)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    def end_sessions(self, why: Exception) -> None:
        """End every session, which would not end by itself. What is not answered will be sent to the next manager."""
        for session in list(self._sessions):
            session.end(why)

    async def Exchange(self, request: session_pb2.ExchangeRequest, context: Context) -> bytes:
        """One turn outside a session."""
        return await self._turns.handle(request.turn)

    async def ReportReady(
        self, request: executor_pb2.ReportReadyRequest, context: Context
    ) -> executor_pb2.ReportReadyResponse:
        """An executor has loaded."""
        self._manager.hear(request.epoch)
        managed = self._manager.pool_of(request.epoch)
        managed.pool.ready(request.epoch)
        return executor_pb2.ReportReadyResponse(version=self._version(managed))

    async def Heartbeat(
        self, request: executor_pb2.HeartbeatRequest, context: Context
    ) -> executor_pb2.HeartbeatResponse:
        """An executor is alive."""
        member = self._manager.hear(request.epoch)
        managed = self._manager.pool_of(request.epoch)
        state = managed.pool.state
        row = state.executors.find(request.epoch)
        return executor_pb2.HeartbeatResponse(
            version=self._version(managed),
            lease_seconds=member.lease.seconds,
            state=EXECUTOR_STATES.to_wire[ExecutorState(state.executors.state.get(row))],
            turn_wanted=bool(state.wishes.get(row)) or member.nudged or self._manager.awaits_report(request.epoch),
        )

    async def AdoptSequences(
        self, request: sequence_pb2.AdoptSequencesRequest, context: Context
    ) -> sequence_pb2.AdoptSequencesResponse:
        """Take over the sequences of dead executors."""
        adopted = self._manager.adopt(request.epoch, list(request.predecessors))
        response = sequence_pb2.AdoptSequencesResponse(version=self._version(self._manager.pool_of(request.epoch)))
        for one in adopted:
            response.adopted.add(
                handle=one.handle, previous=one.previous, resume=one.resume, tokens=one.tokens, suspect=one.suspect
            )
        return response

    async def Unregister(
        self, request: executor_pb2.UnregisterRequest, context: Context
    ) -> executor_pb2.UnregisterResponse:
        """An executor leaves in good order."""
        managed = self._manager.pool_of(request.epoch)
        waiting = self._manager.unregister(request.epoch, request.leave_sequences)
        return executor_pb2.UnregisterResponse(version=self._version(managed), waiting_sequences=waiting)

    # -- front doors -------------------------------------------------------------------------------------------------

    async def LookupSequence(
        self, request: sequence_pb2.LookupSequenceRequest, context: Context
    ) -> sequence_pb2.LookupSequenceResponse:
        """What is known of a sequence."""
        managed = self._manager.pool(request.pool)
        seqs = managed.pool.state.sequences
        response = sequence_pb2.LookupSequenceResponse(version=self._version(managed))
        by_uuid = request.WhichOneof("key") == "uuid"
        slot = seqs.by_uuid.get(request.uuid) if by_uuid else seqs.by_caller.get(request.caller)
        if slot is not None:
            response.live.CopyFrom(live_sequence(managed, slot))
        else:
            response.finished.CopyFrom(finished_sequence(managed, request.uuid, b"" if by_uuid else request.caller))
        return response

    async def AttachSequence(
        self, request: sequence_pb2.AttachSequenceRequest, context: Context
    ) -> sequence_pb2.AttachSequenceResponse:
        """Begin to deliver a sequence's tokens."""
        managed = self._manager.pool(request.pool)
        response = sequence_pb2.AttachSequenceResponse()
        slot = managed.pool.state.sequences.by_uuid.get(request.uuid)
        if slot is not None:
            _, response.attachment = managed.pool.attach(request.uuid)
            response.live.CopyFrom(live_sequence(managed, slot))
        else:
            response.finished.CopyFrom(finished_sequence(managed, request.uuid))
        response.version.CopyFrom(self._version(managed))
        return response

    async def CancelSequence(
        self, request: sequence_pb2.CancelSequenceRequest, context: Context
    ) -> sequence_pb2.CancelSequenceResponse:
        """Ask for a sequence's end."""
        managed = self._manager.pool(request.pool)
        seqs = managed.pool.state.sequences
        by_uuid = request.WhichOneof("key") == "uuid"
        if by_uuid and request.uuid not in seqs.by_uuid:
            raise NotFound(f"no live sequence has the uuid {request.uuid.hex()}")
        handle = seqs.handle(seqs.by_uuid[request.uuid]) if by_uuid else request.handle
        attachment = request.attachment if request.HasField("attachment") else None
        try:
            owner = seqs.epoch.get(seqs.find(handle))
            asked = managed.pool.cancel(handle, attachment)
        except NotFound:
            # A stale handle: its sequence has ended, or changed hands and is somebody else's to end.
            return sequence_pb2.CancelSequenceResponse(version=self._version(managed), asked=False)
        self._manager.nudge(managed.name, session_pb2.NUDGE_REASON_CANCEL, owner)
        return sequence_pb2.CancelSequenceResponse(version=self._version(managed), asked=asked)

    async def SetFinalLength(
        self, request: sequence_pb2.SetFinalLengthRequest, context: Context
    ) -> sequence_pb2.SetFinalLengthResponse:
        """Say where a sequence ends."""
        managed = self._manager.pool(request.pool)
        seqs = managed.pool.state.sequences
        owner = seqs.epoch.get(seqs.find(request.handle))
        length = managed.pool.set_final_length(request.handle, request.length)
        self._manager.nudge(managed.name, session_pb2.NUDGE_REASON_FINAL_LENGTH, owner)
        return sequence_pb2.SetFinalLengthResponse(version=self._version(managed), length=length)


RAW = frozenset({"Session", "Exchange"})
"""Methods that answer with bytes as the ledger keeps them."""


def add_to_server(servicer: BlockManagerServicer, server: grpc.aio.Server) -> None:
    """Register the service. Unlike the generated code this sends the bytes of replies as they are."""
    service = block_manager_service_pb2.DESCRIPTOR.services_by_name["BlockManagerService"]
    add_service(server, service, lambda name: _guard(servicer, getattr(servicer, name)), RAW)


def _guard(
    servicer: BlockManagerServicer, method: Callable[[Any, Context], Awaitable[Any]]
) -> Callable[[Any, Context], Awaitable[Any]]:
    """A call that comes at the wrong time is refused; errors of the domain end it with their status."""

    async def serve(request: Any, context: Context) -> Any:
        error = servicer.why_not()
        if error is not None:
            raise error
        return await method(readable(request), context)

    async def call(request: Any, context: Context) -> Any:
        return await guarded(context, lambda: serve(request, context))

    return call
