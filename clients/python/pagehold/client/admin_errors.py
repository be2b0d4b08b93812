"""What a failed call of the operators' client comes to: one line for people, and the contract's reason for programs."""

import grpc
import grpc.aio
from google.rpc import error_details_pb2
from grpc_status import rpc_status


class AdminError(Exception):
    """A call failed; the text is one line for people.

    ``code`` is gRPC's; ``reason`` is the name of a ``common.v1.ErrorReason``, or "" where the manager gave none;
    ``metadata`` holds the names and numbers that the text speaks of.
    """

    def __init__(self, text: str, code: grpc.StatusCode, reason: str = "", metadata: dict[str, str] | None = None):
        super().__init__(text)
        self.code = code
        self.reason = reason
        self.metadata = metadata or {}


def error_of(error: grpc.aio.AioRpcError, address: str, timeout: float | None) -> AdminError:
    """What went wrong, from a failed call to ``address`` that was given ``timeout`` seconds."""
    reason, metadata = _reason_of(error)
    code, text = error.code(), " ".join((error.details() or "").split())
    if not reason and code == grpc.StatusCode.UNAVAILABLE:
        text = f"no block manager answers at {address}: start one with `pagehold keeper`, or give its --address"
    elif not reason and code == grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"the block manager at {address} did not answer within {timeout:g} s"
    elif not reason and code == grpc.StatusCode.UNIMPLEMENTED:
        text = f"what answers at {address} is no block manager, or one of another version ({text})"
    return AdminError(text or code.name, code, reason, metadata)


def _reason_of(error: grpc.aio.AioRpcError) -> tuple[str, dict[str, str]]:
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]
    except ValueError:  # details of another status than the call's: not the manager's
        return "", {}
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason, dict(info.metadata)
    return "", {}
