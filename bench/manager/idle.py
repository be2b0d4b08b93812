"""An executor that registers and does nothing: `python -m bench.manager.idle RUNTIME_DIR`. It ends with its input."""

import sys
from pathlib import Path

from bench.manager.load import GEOMETRY
from executor.manager import register
from pagehold.blockmgr.v1 import pool_pb2


def pool_spec() -> pool_pb2.PoolSpec:
    """The pool as an executor proposes it."""
    spec = pool_pb2.PoolSpec(name="benchmark")
    for name in ("tokens_per_block", "block_bytes", "device_blocks", "max_sequences", "max_length"):
        setattr(spec.geometry, name, getattr(GEOMETRY, name))
    spec.identity.shape.CopyFrom(
        pool_pb2.BlockShape(layers=1, kv_heads=1, head_size=32, dtype="float32", layout="benchmark", ranks=1)
    )
    spec.identity.content.CopyFrom(pool_pb2.Content(model="benchmark", revision="1"))
    return spec


def main() -> None:
    """Register, say so, and wait."""
    registration = register(Path(sys.argv[1]), "idle", pool_spec())
    registration.ready()
    session = registration.open_session()
    print("idle", flush=True)
    sys.stdin.read()
    session.close()


if __name__ == "__main__":
    main()
