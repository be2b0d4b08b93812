"""What the blocking and the awaiting client share beside procedures: settings, and what a stream knows of itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from pagehold.client.batch import Batch
from pagehold.client.calls import Call, key_of, make
from pagehold.client.channels import default_address
from pagehold.client.effects import Procedure
from pagehold.client.errors import Cancelled
from pagehold.client.events import Completion, Started
from pagehold.client.generation import Generation
from pagehold.client.parameters import Request, generate_request, message_of
from pagehold.client.persistence import Deadline, Persistence
from pagehold.inference.v1 import generation_pb2


class StreamSoFar:
    """What has arrived of a generation. It may be asked at any time, whatever became of the stream."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    @property
    def started(self) -> Started | None:
        """How the request was accepted; None: not yet."""
        return self._generation.transcript.started

    @property
    def text(self) -> str:
        """The text so far, of the first output."""
        return self._generation.transcript.text()

    def text_of(self, output: int) -> str:
        """The text so far of an output."""
        return self._generation.transcript.text(output)

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids so far, of the first output, from the token on that was asked for."""
        return self._generation.transcript.ids()

    def ids_of(self, output: int) -> tuple[int, ...]:
        """The token ids so far of an output."""
        return self._generation.transcript.ids(output)

    @property
    def reconnections(self) -> int:
        """How often the connection broke, or could not be made, so far."""
        return max(0, self._generation.attempts - 1)

    def _whole(self) -> Completion:
        """All of it. Raises ``Cancelled`` where the stream was closed before its end."""
        if not self._ended:
            raise Cancelled("the stream was closed before its end", grpc.StatusCode.CANCELLED)
        return self._generation.transcript.completion()

    @property
    def _ended(self) -> bool:
        return self._generation.transcript.complete

    @property
    def _hanging_up_tells(self) -> bool:
        """Whether the generation ends by itself when the stream hangs up, or was never asked for."""
        return self._generation.attempts == 0 or self._generation.ends_with_its_call


class ClientBase:
    """A connection to the inference service at ``address``: HOST:PORT or unix:PATH.

    Without an address, PAGEHOLD_ADDRESS in the environment counts, else 127.0.0.1:7071. ``timeout``: seconds that a
    call may take which generates nothing. ``connect_seconds``: how long a first answer of the server is waited for.
    ``reconnect_seconds``: how long, after that, a connection that broke is tried again, each time it breaks.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 30.0,
        connect_seconds: float = 5.0,
        reconnect_seconds: float = 60.0,
    ) -> None:
        self.address = address or default_address()
        self.timeout = timeout
        self._persistence = Persistence(connect_seconds, reconnect_seconds)

    def _make(self, call: Call[Any], timeout: float | None) -> Procedure[Any]:
        """A unary call."""
        seconds = self.timeout if timeout is None else timeout
        return make(call, self._persistence, Deadline(seconds, self._persistence))

    def _generation(self, parameters: Mapping[str, Any], timeout: float | None, retry_overload: bool) -> Generation:
        request, deadline = generate_request(parameters), Deadline(timeout, self._persistence)
        return Generation(request, self._persistence, deadline, retry_overload=retry_overload)

    def _attachment(
        self, id_: str | None, request_id: str | None, from_token: int, detached: bool | None, timeout: float | None
    ) -> Generation:
        key = key_of(id_, request_id)
        request = message_of(generation_pb2.AttachRequest, **key, from_token=from_token, detached=detached)
        return Generation(request, self._persistence, Deadline(timeout, self._persistence))

    def _batch(
        self,
        requests: Sequence[str | Request],
        parameters: Mapping[str, Any],
        timeout: float | None,
        retry_overload: bool,
    ) -> Batch:
        wanted = [
            generate_request({**parameters, **({"prompt": one} if isinstance(one, str) else one)}) for one in requests
        ]
        return Batch(wanted, self._persistence, Deadline(timeout, self._persistence), retry_overload=retry_overload)
