"""The two gRPC servers of a manager: one for executors and front doors, one for operators."""

import asyncio
import os
from pathlib import Path

import grpc
import structlog
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from blockmgr.addresses import ensure_free
from blockmgr.core.errors import Precondition
from blockmgr.service import block_manager
from blockmgr.service.admin import AdminServicer, add_to_server
from blockmgr.service.block_manager import BlockManagerServicer
from blockmgr.service.pending import PENDING_OPTIONS
from pagehold.admin.v1 import admin_service_pb2
from pagehold.blockmgr.v1 import block_manager_service_pb2

log = structlog.get_logger()

MESSAGE_BYTES = 16 << 20
OPTIONS = [
    *PENDING_OPTIONS,
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    # Executors and operators may ping while nothing else moves.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
]


class Servers:
    """Both servers, each with health and reflection beside what it serves."""

    def __init__(self, servicer: BlockManagerServicer, admin: AdminServicer) -> None:
        self._executors = grpc.aio.server(options=OPTIONS)
        block_manager.add_to_server(servicer, self._executors)
        self._operators = grpc.aio.server(options=OPTIONS)
        add_to_server(admin, self._operators)
        channelz.add_channelz_servicer(self._operators)  # type: ignore[arg-type]
        contracts = (
            block_manager_service_pb2.DESCRIPTOR.services_by_name["BlockManagerService"],
            admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
        )
        self._health = [
            _add_common(server, contract.full_name)
            for server, contract in zip((self._executors, self._operators), contracts, strict=True)
        ]

    def bind_executors(self, path: Path) -> None:
        """Take the executors' socket, mode 0600, in place of any that was left there."""
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._executors.add_insecure_port(f"unix:{path}")
        finally:
            os.umask(mask)

    def bind_operators(self, address: str) -> None:
        """Take the operators' address. ``Precondition`` or ``WrongSetting`` if it cannot be had."""
        ensure_free(address)
        try:
            port = self._operators.add_insecure_port(address)
        except RuntimeError as error:
            raise Precondition(f"admin_address is {address}, but it cannot be bound: {error}") from error
        log.info("operators' port", address=address if address.startswith("unix:") else f"port {port}")

    async def start(self) -> None:
        """Answer from now on, with a health that is not good yet: it would be, had nobody said anything."""
        await self.set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._executors.start()
        await self._operators.start()

    async def set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        """What both say of their health."""
        for servicer in self._health:
            await servicer.set("", status)

    async def stop(self, grace: float) -> None:
        """No new calls; those under way have ``grace`` seconds. May be repeated with less."""
        await asyncio.gather(self._executors.stop(grace), self._operators.stop(grace))


def _add_common(server: grpc.aio.Server, name: str) -> HealthServicer:
    servicer = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection([name, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    return servicer
