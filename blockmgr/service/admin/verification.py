"""Every invariant checked by hand, on a snapshot and off the loop."""

import asyncio
import time

from blockmgr.core.pool import Pool
from blockmgr.core.states import BlockState
from blockmgr.core.verify import Snapshot, Violation, verify
from blockmgr.service.admin.identifiers import within
from pagehold.admin.v1 import verify_pb2
from pagehold.common.v1.version_pb2 import StateVersion

LIMIT_DEFAULT, LIMIT = 100, 10_000


async def verify_pool(
    pool: Pool, request: verify_pb2.VerifyInvariantsRequest, version: StateVersion
) -> verify_pb2.VerifyInvariantsResponse:
    """Take a snapshot and check it in a thread."""
    limit = request.limit if request.HasField("limit") else LIMIT_DEFAULT
    within("limit", limit, 1, LIMIT)
    snapshot, began = pool.snapshot(), time.perf_counter()
    found = await asyncio.to_thread(verify, snapshot)
    return _answer(snapshot, found, limit, version, time.perf_counter() - began)


def _answer(
    snapshot: Snapshot, found: list[Violation], limit: int, version: StateVersion, seconds: float
) -> verify_pb2.VerifyInvariantsResponse:
    answer = verify_pb2.VerifyInvariantsResponse(
        version=version,
        violation_count=len(found),
        blocks=int((snapshot.block["state"] != BlockState.ABSENT).sum()),
        sequences=len(snapshot.tables),
        table_entries=sum(len(entries) for entries in snapshot.tables.values()),
        index_entries=len(snapshot.index[0]) + len(snapshot.index[1]),
        tickets=int((snapshot.ticket["kind"] != 0).sum()),
        seconds=seconds,
    )
    for violation in found[:limit]:
        answer.violations.add(invariant=violation.invariant, detail=violation.text)
    return answer
