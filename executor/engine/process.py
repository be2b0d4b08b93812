"""The engine's process: from its registration, over the model's load and what is to be adopted, to its last step."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import grpc
import structlog
import torch

from blockmgr.configuration import WrongSetting
from blockmgr.notify import Notifier
from blockmgr.service.logs import configure_logs
from executor.engine.adoption import adopt
from executor.engine.engine import Engine, Ways
from executor.engine.flight import Flight
from executor.engine.host_device import HostDevice
from executor.engine.liveness import Liveness
from executor.engine.loading import Prepared, load, prepare
from executor.engine.metrics import Metrics
from executor.engine.model_inputs import Tables
from executor.engine.model_source import describe_model, known_ids
from executor.engine.orders import Inbox
from executor.engine.scheduler import Budget
from executor.engine.server import EngineServer
from executor.engine.settings import EngineSettings
from executor.engine.sizing import limits_of, propose_pool, salt_of
from executor.engine.work import Work
from executor.manager import ManagerSession, Registration, Revoked, register
from executor.manager.channel import reason_of
from executor.models.errors import ModelError
from executor.models.model import PagedModel
from executor.models.progress import progress_told
from pagehold.engine.v1 import description_pb2

log = structlog.get_logger()

FAILED, REVOKED = 1, 3
"""Exit codes: the engine failed; its registration was over."""


class EngineProcess:
    """Starts, runs and stops one engine. ``run`` is the whole life, on the main thread."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._notifier = Notifier.from_environment()
        self._metrics = Metrics()
        self._inbox = Inbox()
        self._server: EngineServer | None = None
        self._engine: Engine | None = None

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal ends it at once. Raises what keeps the engine from working."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if self.settings.metrics_port:
            self._metrics.serve(self.settings.metrics_port)
        with progress_told(lambda title, percent: self._notifier.status(f"{title}: {percent} %")):
            prepared = prepare(self.settings)
        log.info(
            "model found", model=prepared.source.name, revision=prepared.revision, folder=str(prepared.source.folder)
        )
        registration = self._register(prepared)
        # Only now: the manager has seen to it that this name, and so this socket, is nobody else's.
        self._server = server = EngineServer(self.settings.socket)
        self._notifier.status(f"loading {prepared.source.name}")
        with progress_told(lambda _, percent: self._notifier.status(f"loading {prepared.source.name}: {percent} %")):
            model = load(prepared)
        self._serve(registration, server, prepared, model)

    def _register(self, prepared: Prepared) -> Registration:
        settings = self.settings
        spec = propose_pool(settings, prepared.cache, prepared.source.name, prepared.revision)
        registration = register(
            settings.runtime_dir,
            settings.name,
            spec,
            lease_seconds=settings.lease_seconds,
            timeout=settings.register_seconds,
        )
        geometry = registration.response.pool.geometry
        log.info(
            "registered",
            name=settings.name,
            epoch=registration.epoch,
            pool=registration.response.pool.name,
            blocks=geometry.device_blocks,
            bytes=geometry.device_bytes,
            created=registration.response.created,
            waiting_sequences=registration.response.waiting_sequences,
        )
        return registration

    def _serve(self, registration: Registration, server: EngineServer, prepared: Prepared, model: PagedModel) -> None:
        """Take up what was left, serve until asked to stop, and leave."""
        settings, pool = self.settings, registration.response.pool
        limits = limits_of(pool, model)
        described = describe_model(prepared.source, prepared.revision, limits.max_length, model.vocab_size)
        device = self._device(registration, model, known_ids(prepared.source.folder, model.vocab_size))
        work = Work(limits, settings.max_running, settings.max_waiting)
        flight = Flight(device, frozenset(described.eos_token_ids))
        adopt(registration, work, flight.changes)
        session = registration.open_session(self._inbox.wake)
        ways = Ways(Budget(settings.step_tokens, settings.chunk, settings.max_running), salt_of(model))
        alive = Liveness(self._notifier, settings.step_timeout)
        engine = Engine(
            registration, session, device, work, flight, self._inbox, ways, self._metrics, server.tell, alive
        )
        registration.ready()
        server.open(engine, self._description(registration, described))
        self._engine = engine
        self._notifier.ready()
        self._notifier.status(f"serving {described.name}")
        log.info("serving", model=described.name, socket=str(settings.socket), threads=torch.get_num_threads())
        engine.run()
        self._leave(registration, server, session, device)

    def _device(self, registration: Registration, model: PagedModel, vocabulary: int) -> HostDevice:
        geometry = registration.mapping.ledger.geometry
        tables = Tables(geometry.max_sequences, geometry.max_table, geometry.tokens_per_block)
        return HostDevice(model, registration.mapping, tables, vocabulary, self._inbox.wake)

    def _description(
        self, registration: Registration, described: description_pb2.ModelDescription
    ) -> description_pb2.DescribeResponse:
        """What front doors are told when they ask."""
        return description_pb2.DescribeResponse(
            name=self.settings.name,
            instance=registration.instance,
            pool=registration.response.pool,
            model=described,
            max_waiting=self.settings.max_waiting,
            max_running=self.settings.max_running,
        )

    def _leave(
        self, registration: Registration, server: EngineServer, session: ManagerSession, device: HostDevice
    ) -> None:
        """Everything that was launched has completed and is reported. What still runs waits for a successor."""
        server.close()
        device.close()
        session.close()
        registration.unregister(leave_sequences=True)
        log.info("left")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._engine is None or self._server is None:
            raise SystemExit(0)
        if self._engine.is_stopping:
            # Asked twice: what the ledger holds is enough for a successor.
            _end_now(0)
        self._notifier.stopping()
        self._server.stopping()
        self._engine.stop(self.settings.stop_grace)


def serve(settings: EngineSettings) -> NoReturn:
    """Run an engine in this process, and end the process with its exit code.

    Raises ``WrongSetting`` where another start would end likewise.
    """
    configure_logs(settings.log_level, settings.log_format)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    try:
        EngineProcess(settings).run()
    except ModelError as error:
        raise WrongSetting(f"model is {settings.model!r}: {error}") from error
    except Revoked as error:
        log.error("the registration is over", error=str(error))
        _end_now(REVOKED)
    except grpc.RpcError as error:
        log.error("the manager refuses", reason=reason_of(error), error=error.details())
        _end_now(FAILED)
    except Exception:
        log.exception("the engine has failed")
        _end_now(FAILED)
    # All is told and left. To take down torch and all that came with it would only hold up a successor.
    _end_now(0)


def _end_now(code: int) -> NoReturn:
    """End without waiting for any thread: one that computes must not write into the pool any more."""
    sys.stderr.flush()
    os._exit(code)
