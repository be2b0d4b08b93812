"""The engine's process: from its registration, over the model's load and what is to be adopted, to its last step."""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import grpc
import structlog
import torch

from blockmgr.arena import NoSuchGpu
from blockmgr.configuration import WrongSetting
from blockmgr.notify import Notifier
from blockmgr.service.logs import configure_logs
from executor.engine.adoption import adopt
from executor.engine.device import Device
from executor.engine.devices import make_device
from executor.engine.engine import Engine, Ways
from executor.engine.flight import Flight
from executor.engine.gpu.compilations import Compilations
from executor.engine.gpu.placement import Place, settle_place
from executor.engine.joining import join_pool
from executor.engine.liveness import Liveness
from executor.engine.loading import Prepared, load, prepare
from executor.engine.metrics import Metrics
from executor.engine.model_source import describe_model, known_ids
from executor.engine.orders import Inbox
from executor.engine.preemption import Preemption, Way
from executor.engine.scheduler import Budget
from executor.engine.server import EngineServer
from executor.engine.settings import EngineSettings
from executor.engine.sizing import limits_of, salt_of
from executor.engine.work import Work
from executor.manager import ManagerSession, Registration, Revoked
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
        self._compilations = Compilations(self._metrics.count_compilation)
        self._inbox = Inbox()
        self._server: EngineServer | None = None
        self._engine: Engine | None = None

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal ends it at once. Raises what keeps the engine from working."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if self.settings.metrics_port:
            self._metrics.serve(self.settings.metrics_port)
        place = settle_place(self.settings.device, same_bits=self.settings.same_bits)
        if place.gpu_uuid:
            self.settings = self.settings.on_gpu()
            self._compilations.watch()
            self._metrics.watch_allocator(lambda: torch.cuda.memory_stats(place.device).get("num_alloc_retries", 0))
        with progress_told(lambda title, percent: self._notifier.status(f"{title}: {percent} %")):
            prepared = prepare(self.settings, place.device)
        source = prepared.source
        log.info("model found", model=source.name, revision=prepared.revision, folder=str(source.folder))
        with progress_told(lambda _, percent: self._notifier.status(f"loading {source.name}: {percent} %")):
            registration, prepared = join_pool(self.settings, place, prepared)
            # Only now: the manager has seen to it that this name, and so this socket, is nobody else's.
            self._server = server = EngineServer(self.settings.socket)
            self._notifier.status(f"loading {source.name}")
            model = load(prepared)
        self._serve(registration, server, prepared, model, place)

    def _serve(
        self, registration: Registration, server: EngineServer, prepared: Prepared, model: PagedModel, place: Place
    ) -> None:
        """Take up what was left, serve until asked to stop, and leave."""
        settings, pool = self.settings, registration.response.pool
        limits = limits_of(pool, model)
        described = describe_model(prepared.source, prepared.revision, limits.max_length, model.vocab_size)
        known = known_ids(prepared.source.folder, model.vocab_size)
        device = make_device(settings, place, registration.mapping, model, known, self._compilations, self._inbox.wake)
        way = None if settings.preempt == "auto" else Way(settings.preempt)
        preemption = Preemption(way, pool.geometry.host_blocks)
        work = Work(limits, settings.max_running, settings.max_waiting, preemption)
        work.beams.held_back = frozenset(described.eos_token_ids)
        flight = Flight(device, frozenset(described.eos_token_ids))
        adopt(registration, work, flight.changes)
        session = registration.open_session(self._inbox.wake)
        ways = Ways(Budget(settings.step_tokens, settings.chunk, settings.max_running), salt_of(model))
        alive = Liveness(self._notifier, settings.step_timeout)
        engine = Engine(
            registration, session, device, work, flight, self._inbox, ways, self._metrics, server.tell, alive
        )
        registration.ready()
        # Ahead of being seen: who sees it may have it stop.
        self._engine = engine
        server.open(engine, self._description(registration, described))
        self._notifier.ready()
        self._notifier.status(f"serving {described.name}")
        log.info("serving", model=described.name, socket=str(settings.socket), device=place.gpu_uuid or "cpu")
        # What is here now stays: looking through it again and again would hold up steps.
        gc.freeze()
        engine.run()
        self._leave(registration, server, session, device)

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

    def _leave(self, registration: Registration, server: EngineServer, session: ManagerSession, device: Device) -> None:
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
    except NoSuchGpu as error:
        raise WrongSetting(f"device is {settings.device!r}: {error}") from error
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
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
