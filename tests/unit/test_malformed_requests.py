"""What is no message of the contract is refused like any other wrong field, by every method of both services."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from pagehold.admin.v1 import admin_service_pb2
from pagehold.blockmgr.v1 import block_manager_service_pb2
from tests.admin_server import AdminServer, Failing
from tests.scripted.world import World, running

GARBAGE = b"\xff\xff\xff"
ADMIN = admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"]
EXECUTORS = block_manager_service_pb2.DESCRIPTOR.services_by_name["BlockManagerService"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminServer]:
    with AdminServer(tmp_path_factory.mktemp("admin")) as server:
        yield server


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with running() as world:
        yield world


def send_garbage(address: str, service: ServiceDescriptor, method: MethodDescriptor) -> Failing:
    path = f"/{service.full_name}/{method.name}"
    with (
        grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel,
        Failing() as failed,
    ):
        if method.client_streaming:
            list(channel.stream_stream(path, None, None)(iter([GARBAGE]), timeout=60))
        elif method.server_streaming:
            list(channel.unary_stream(path, None, None)(GARBAGE, timeout=60))
        else:
            channel.unary_unary(path, None, None)(GARBAGE, timeout=60)
    return failed


@pytest.mark.parametrize("method", list(ADMIN.methods), ids=lambda method: method.name)
def test_an_operator_whose_request_cannot_be_read_is_told_so(server: AdminServer, method: MethodDescriptor) -> None:
    failed = send_garbage(server.address, ADMIN, method)
    assert (failed.code, failed.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "ERROR_REASON_INVALID_FIELD")
    assert failed.fields == ["request"]


@pytest.mark.parametrize("method", list(EXECUTORS.methods), ids=lambda method: method.name)
def test_an_executor_whose_request_cannot_be_read_is_told_so(world: World, method: MethodDescriptor) -> None:
    failed = send_garbage(f"unix:{Path(world.runtime_dir) / 'blockmgr.sock'}", EXECUTORS, method)
    assert (failed.code, failed.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "ERROR_REASON_INVALID_FIELD")
    assert failed.fields == ["request"]
