"""The engine's end of its fake device."""

import os
import subprocess
import sys

from blockmgr.processes import Process
from tests.scripted.commands import Copy, Done, Forget, Launched, Poison, Receiver, Setup, Step, make_pipe, send


class DeviceStream:
    """Starts a device, launches commands on it, and hears of their completion. Owns that process."""

    def __init__(self) -> None:
        commands, self._commands = make_pipe()
        done, writing = make_pipe()
        self._receiver = Receiver(done)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.scripted.device", str(commands), str(writing)],
            pass_fds=(commands, writing),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(writing)
        self.process = Process.open(self._process.pid, "device")
        self.serial = 0
        self.completed = 0

    def set_up(self, setup: Setup) -> None:
        """Let it map the pool."""
        send(self._commands, setup)

    def launch(self, command: Step | Copy | Poison | Forget) -> int:
        """Put a command on the stream. Returns its place."""
        self.serial += 1
        send(self._commands, Launched(self.serial, command))
        return self.serial

    def poison(self, blocks: list[int]) -> None:
        """Spoil blocks that were handed out anew."""
        if blocks:
            self.launch(Poison(blocks))

    def completions(self, timeout: float) -> list[Done]:
        """What has completed, waiting up to ``timeout`` seconds for something. Raises ``EOFError`` if the device died."""
        found = []
        for done in self._receiver.receive(timeout):
            assert isinstance(done, Done)
            self.completed = done.serial
            found.append(done)
        if self._receiver.ended:
            raise EOFError("the device is gone")
        return found

    def close(self) -> None:
        """End the stream and wait for the process, which executes what is left of it."""
        os.close(self._commands)
        self._process.wait(60)
        self.process.close()
