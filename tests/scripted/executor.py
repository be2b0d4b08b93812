"""An executor without a model, as a process of its own: what tests kill, stop and hold.

    python -m tests.scripted.executor SCRIPT.json

reports on standard output (see ``points``) and waits on standard input where it is told to hold. Exit codes: 0 all
delivered, 3 its registration was revoked, 4 its device is gone.
"""

import json
import os
import select
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blockmgr.processes import Process
from blockmgr.service.specs import ARENA_NUMBERS
from executor.manager import Registration, Revoked, register
from pagehold.blockmgr.v1 import pool_pb2
from tests.scripted.commands import Setup
from tests.scripted.delivery import Delivery
from tests.scripted.engine import Engine, Settings
from tests.scripted.points import Points, tell
from tests.scripted.stream import DeviceStream
from tests.scripted.workload import Request

REVOKED, DEVICE_GONE = 3, 4


def pool_spec(pool: dict[str, Any]) -> pool_pb2.PoolSpec:
    """The pool that a script proposes: its geometry, and what may differ of its identity."""
    identity = pool.get("identity", {})
    spec = pool_pb2.PoolSpec(name=pool.get("name", "scripted"))
    for name, value in pool["geometry"].items():
        setattr(spec.geometry, name, value)
    spec.identity.shape.CopyFrom(
        pool_pb2.BlockShape(
            layers=identity.get("layers", 1), kv_heads=1, head_size=2, dtype="float32", layout="toy", ranks=1
        )
    )
    spec.identity.content.CopyFrom(
        pool_pb2.Content(model=identity.get("model", "toy"), revision=identity.get("revision", "1"))
    )
    if pool.get("gpu_uuid"):
        spec.shards.add(rank=0, gpu_uuid=pool["gpu_uuid"])
        spec.arena = ARENA_NUMBERS[pool.get("arena", "host")]
    return spec


def main() -> int:
    script = json.loads(Path(sys.argv[1]).read_text())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    points = Points(script.get("holds", []))
    device = DeviceStream()
    tell("started", pid=os.getpid(), device=device.process.pid)
    registration = register(
        Path(script["runtime_dir"]),
        script["name"],
        pool_spec(script["pool"]),
        processes=[Process.open(os.getpid(), "engine"), device.process],
        lease_seconds=script.get("lease_seconds"),
    )
    response = registration.response
    tell("registered", epoch=response.epoch, created=response.created, relabelled=response.relabelled)
    points.reach("after-register")
    device.set_up(
        Setup(
            name=script["name"],
            registered=response.SerializeToString(),
            instance=registration.instance,
            violations=script["violations"],
            seed=script.get("seed", 0),
            mean_seconds=script.get("mean_seconds", 0.001),
            linger_seconds=script.get("linger_seconds", 0.05),
        )
    )
    engine = Engine(
        registration, device, Delivery(Path(script["delivery"])), Settings(**script.get("settings", {})), points
    )
    signal.signal(signal.SIGUSR1, lambda *_: setattr(engine, "asked", True))
    try:
        engine.run([Request(**request) for request in script["requests"]], script.get("predecessors", []))
    except Revoked as error:
        tell("revoked", detail=str(error))
        return REVOKED
    except EOFError as error:
        tell("device gone", detail=str(error))
        return DEVICE_GONE
    return leave(engine, registration, script.get("stay", False))


def leave(engine: Engine, registration: Registration, stay: bool) -> int:
    """Everything is delivered. Stay idle for as long as the test wants, then go in good order."""
    tell("done", reconnections=engine.session.reconnections, **asdict(engine.statistics))
    while stay and not select.select([sys.stdin], [], [], 0.0)[0]:
        engine.advance()
    while not engine.is_settled():
        engine.advance()
    engine.session.close()
    registration.unregister()
    engine.device.close()
    return 0


if __name__ == "__main__":
    # A thread that is still in a call must not keep a process that has something to say by its exit code.
    code = main()
    sys.stdout.flush()
    os._exit(code)
