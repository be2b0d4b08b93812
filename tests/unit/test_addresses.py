"""What an address of the operators' port may be, and when it cannot be bound."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockmgr.addresses import ensure_free, parse_address
from blockmgr.configuration import WrongSetting
from blockmgr.core.errors import Precondition
from blockmgr.service.settings import ManagerSettings


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[socket.socket]:
    """Somebody else who serves on a unix socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "admin"))
        listening.listen(1)
        yield listening


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:7070", ("127.0.0.1", 7070)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("unix:/run/x", Path("/run/x")),
        ("unix:///run/x", Path("/run/x")),
        ("unix:x", Path("x")),
    ],
)
def test_an_address_is_host_and_port_or_a_path(text: str, place: object) -> None:
    assert parse_address(text) == place


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("127.0.0.1", "must be HOST:PORT"),
        (":7070", "must be HOST:PORT"),
        ("::1:7070", "an IPv6 address in brackets"),
        ("127.0.0.1:99999", "the port must be a number from 0 to 65535"),
        ("127.0.0.1:http", "the port must be a number from 0 to 65535"),
        ("unix:", "must have 1 to 107 bytes"),
        ("unix:/" + "x" * 107, "must have 1 to 107 bytes"),
    ],
)
def test_what_is_no_address_is_refused_with_the_setting(text: str, limit: str) -> None:
    with pytest.raises(WrongSetting, match=f"admin_address is .*{limit}"):
        ManagerSettings.load(admin_address=text)


def test_a_port_that_is_free_stays_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
    ensure_free(f"127.0.0.1:{place[1]}")
    with socket.create_server(place) as server:
        assert server.getsockname() == place


def test_a_port_in_use_may_become_free_and_a_host_of_elsewhere_never_will() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Precondition, match="Address already in use"):
        ensure_free(f"127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(WrongSetting, match=r"admin_address is no-such-host\.invalid:1, whose host cannot be found"):
        ensure_free("no-such-host.invalid:1")


def test_a_shared_port_is_free_where_all_who_use_it_share_it() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ensure_free(address, shared=True)
        with pytest.raises(Precondition, match="Address already in use"):
            ensure_free(address)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Precondition, match="Address already in use"):
        ensure_free(f"127.0.0.1:{server.getsockname()[1]}", shared=True)


def test_a_socket_at_which_another_serves_is_not_taken_from_it(tmp_path: Path, taken: socket.socket) -> None:
    with pytest.raises(Precondition, match="Address already in use"):
        ensure_free(f"unix:{tmp_path}/admin")
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect(f"{tmp_path}/admin")


def test_a_socket_that_was_left_behind_makes_room(tmp_path: Path, taken: socket.socket) -> None:
    taken.close()
    ensure_free(f"unix:{tmp_path}/admin")
    assert not (tmp_path / "admin").exists()


def test_a_file_in_the_place_of_a_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    path.write_text("precious")
    with pytest.raises(WrongSetting, match="a file that is no socket is there"):
        ensure_free(f"unix:{path}")
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="No such file or directory"):
        ensure_free(f"unix:{tmp_path}/nowhere/admin")
