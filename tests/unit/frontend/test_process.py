"""What a door's process is made of."""

import subprocess
import sys
from pathlib import Path

import grpc._cython
import pytest

from blockmgr.configuration import WrongSetting
from blockmgr.service.servers import OPTIONS as MANAGER_OPTIONS
from executor.frontend.server import OPTIONS
from executor.frontend.settings import DoorSettings
from executor.manager.channel import CHANNEL_OPTIONS


def test_the_process_imports_no_torch() -> None:
    program = "import sys, executor.frontend.process; print('torch' in sys.modules, 'transformers' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", [name for name, _ in (*OPTIONS, *MANAGER_OPTIONS, *CHANNEL_OPTIONS)])
def test_grpc_knows_each_channel_argument(name: str) -> None:
    binary = next(Path(grpc._cython.__file__).parent.glob("cygrpc*.so")).read_bytes()
    assert name.encode() in binary


@pytest.mark.parametrize(
    ("flag", "value", "limit"),
    [
        ("name", "a/b", "letters"),
        ("address", "nowhere", "HOST:PORT"),
        ("max_requests", 0, "greater"),
        ("grace", -1, "0"),
    ],
)
def test_a_wrong_setting_is_named_with_its_limit(flag: str, value: object, limit: str) -> None:
    with pytest.raises(WrongSetting, match=f"{flag} is .*{limit}"):
        DoorSettings.load(**{flag: value})


def test_sockets_of_a_door_are_its_own(tmp_path: Path) -> None:
    settings = DoorSettings.load(runtime_dir=tmp_path, name="door-2")
    assert settings.own_socket == tmp_path / "doors" / "door-2.sock"
    assert settings.engines == tmp_path / "engines"
