"""An executor that is a process of its own, with a context on the GPU, and does what a test tells it.

    python -m tests.gpu.attached RUNTIME_DIR

reads a line of JSON for each thing to do and answers each with one. Killing it is the end of it, as of any executor.
"""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from blockmgr.core.messages import Admission, Message, Progress
from executor.manager import Registration, register
from pagehold.blockmgr.v1 import pool_pb2
from tests.scripted.processes import ROOT

PROMPT = 8
"""Tokens of the prompt that it works on."""


class Attached:
    """The test's side of such a process."""

    def __init__(self, runtime_dir: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.attached", str(runtime_dir)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        self.pidfd = os.pidfd_open(self.process.pid)
        self._unanswered = 0

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Have it do something, and wait until it has, and whatever it was told before."""
        self.tell(what, **more)
        while self._unanswered > 1:
            self.answer()
        return self.answer()

    def tell(self, what: str, **more: Any) -> None:
        """Have it do something, without waiting."""
        assert self.process.stdin is not None
        self._unanswered += 1
        self.process.stdin.write(json.dumps({"what": what, **more}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What came of the first thing that is not answered yet."""
        assert self.process.stdout is not None
        self._unanswered -= 1
        line = self.process.stdout.readline()
        assert line, f"it has ended with {self.process.wait(10)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def attach(self, name: str, pool: pool_pb2.PoolSpec) -> dict[str, Any]:
        """Have it register with a pool and map it."""
        return self.ask("attach", name=name, pool=pool.SerializeToString().hex())

    def read(self, offset: int, length: int) -> bytes:
        """Bytes as it sees them."""
        return bytes.fromhex(self.ask("read", offset=offset, length=length)["bytes"])

    def kill(self) -> None:
        """End it, and wait until it is gone."""
        self.process.kill()
        self.process.wait(30)
        os.close(self.pidfd)


class Worker:
    """The process's side: each method is a thing that it can do to the pool that it attached to last."""

    def __init__(self, runtime_dir: Path) -> None:
        self._runtime_dir = runtime_dir
        self._registrations: list[Registration] = []
        self._own: Any = None

    def attach(self, name: str, pool: str) -> dict[str, Any]:
        spec = pool_pb2.PoolSpec.FromString(bytes.fromhex(pool))
        self._registrations.append(register(self._runtime_dir, name, spec))
        device = self._registrations[-1].mapping.device
        return {"ordinal": device.ordinal, "size": device.size, "epoch": self._registrations[-1].epoch}

    def read(self, offset: int, length: int) -> dict[str, Any]:
        return {"bytes": self._registrations[-1].mapping.device.read(offset, length).hex()}

    def allocate(self, size: int) -> dict[str, Any]:
        """Take memory by torch's own allocator, of the GPU if torch can use one."""
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._own = torch.full((size,), 1, dtype=torch.uint8, device=device)
        return {"sum": int(self._own.sum())}

    def launch(self) -> dict[str, Any]:
        """Admit a prompt, report a step launched that fills its block, and have a kernel write there for minutes."""
        registration = self._registrations[-1]
        session = registration.open_session()
        prompt = Admission(uuid=uuid.uuid4().bytes, prompt=np.arange(1, PROMPT + 1, dtype=np.int32))
        reply = session.exchange(Message(0, 0, admissions=[prompt]))
        handle = np.array([reply.admitted[0].handle])
        launched = Progress(handle, np.array([PROMPT]), np.array([0]))
        session.exchange(Message(0, 0, launched_step=1, completed_step=0, progress=launched))
        block = int(reply.tables[0].blocks[0])
        self._write_for_minutes(registration, block)
        return {"block": block, "handle": int(handle[0])}

    def _write_for_minutes(self, registration: Registration, block: int) -> None:
        import torch

        from tests.gpu.busy import count_up

        mapping = registration.mapping
        start = block * mapping.block_bytes
        count_up(mapping.tensor()[start : start + 4].view(torch.int32))


def main() -> None:
    worker = Worker(Path(sys.argv[1]))
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(worker, command.pop("what"))(**command)), flush=True)


if __name__ == "__main__":
    main()
