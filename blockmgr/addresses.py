"""Addresses of the operators' port: what they may be, and whether a server could be bound there."""

import errno
import os
import socket
from pathlib import Path

from blockmgr.configuration import WrongSetting, may_pass
from blockmgr.core.errors import Precondition

_LONGEST_PATH = 107
"""Bytes of a unix socket's path."""
_HIGHEST_PORT = 65535


def parse_address(text: str) -> Path | tuple[str, int]:
    """A socket's path, or host and port.

    Raises:
        ValueError: it is neither ``unix:PATH`` nor ``HOST:PORT``.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if not 0 < len(os.fsencode(path)) <= _LONGEST_PATH:
            raise ValueError(f"the path of a socket must have 1 to {_LONGEST_PATH} bytes")
        return Path(path)
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or (":" in host and bare == host):
        raise ValueError("must be HOST:PORT (an IPv6 address in brackets) or unix:PATH")
    if not (port.isascii() and port.isdecimal()) or int(port) > _HIGHEST_PORT:
        raise ValueError(f"the port must be a number from 0 to {_HIGHEST_PORT}")
    return bare, int(port)


def ensure_free(address: str, setting: str = "admin_address", shared: bool = False) -> None:
    """Try to bind ``address``, and let go of it again; an error names the ``setting``. gRPC would only say that it cannot.

    A ``shared`` port may be in use by processes of the same user that share it too.

    Raises:
        Precondition: it is in use, or cannot be had just now.
        WrongSetting: it can never be bound here.
    """
    place = parse_address(address)
    try:
        if isinstance(place, Path):
            _try_path(place)
        else:
            _try_port(*place, shared)
    except socket.gaierror as error:
        kind = Precondition if error.errno == socket.EAI_AGAIN else WrongSetting
        raise kind(f"{setting} is {address}, whose host cannot be found: {error.strerror}") from error
    except OSError as error:
        kind = Precondition if may_pass(error) else WrongSetting
        raise kind(f"{setting} is {address}, but it cannot be bound: {error.strerror}") from error


def _try_path(path: Path) -> None:
    """A socket that nobody listens on was left behind and makes room. Anything else at its place stays."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(str(path)) == 0:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        path.unlink()
    elif path.exists():
        raise FileExistsError(errno.EEXIST, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.bind(str(path))
    path.unlink()


def _try_port(host: str, port: int, shared: bool) -> None:
    """Of a host with several addresses one has to be free, and none in use: who comes by the name may be led to it."""
    problems: list[OSError] = []
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC binds: connections of a predecessor that linger do not keep its port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if shared:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                probe.bind(place)
        except OSError as error:
            problems.append(error)
    in_use = [error for error in problems if error.errno == errno.EADDRINUSE]
    if in_use or len(problems) == len(places):
        raise (in_use or problems)[0]
