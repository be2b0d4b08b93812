"""The same turns within one process, each part by the processor time that it takes."""

import os
import time
import uuid
from collections import defaultdict

import numpy as np

from bench.manager.load import GEOMETRY
from blockmgr.core.columns import Change
from blockmgr.core.messages import Message, Reply
from blockmgr.core.pool import Pool
from blockmgr.ledger.pool_ledger import PoolLedger
from blockmgr.ledger.redo import RedoLog
from blockmgr.service.codec import decode_reply, decode_turn, encode_reply, encode_turn
from pagehold.blockmgr.v1 import turn_pb2


class TimedLedger(PoolLedger):
    """A ledger that says how long its commits take."""

    seconds = 0.0

    def commit(self, changes: list[Change]) -> None:
        """Commit, and add the time that it takes."""
        began = time.thread_time()
        super().commit(changes)
        self.seconds += time.thread_time() - began


class Parts:
    """The same turns within one process, each part by itself."""

    def __init__(self) -> None:
        self.redo = RedoLog.create()
        self.ledger = TimedLedger.create("benchmark", GEOMETRY, self.redo)
        self.pool = Pool(GEOMETRY, self.ledger, encode=self._encode)
        self.epoch = self.pool.register("a", uuid.uuid4().bytes, [os.getpid()])
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._number = 0
        self._encoding = 0.0

    def _encode(self, reply: Reply) -> bytes:
        began = time.thread_time()
        data = encode_reply(reply, 1)
        self._encoding = time.thread_time() - began
        return data

    def exchange(self, message: Message) -> Reply:
        """One turn, taken apart."""
        self._number += 1
        message.epoch, message.number = self.epoch, self._number
        clock = [time.thread_time()]
        data = encode_turn(message).SerializeToString()
        clock.append(time.thread_time())
        turn = decode_turn(turn_pb2.Turn.FromString(data))
        clock.append(time.thread_time())
        self.ledger.seconds = 0.0
        answer = self.pool.exchange(turn)
        clock.append(time.thread_time())
        reply = decode_reply(answer)
        clock.append(time.thread_time())
        encode, decode, exchange, parse = np.diff(clock).tolist()
        core = exchange - self.ledger.seconds - self._encoding
        for name, seconds in (
            ("executor: encode turn", encode),
            ("manager: decode turn", decode),
            ("manager: core", core),
            ("manager: ledger commit", self.ledger.seconds),
            ("manager: encode reply", self._encoding),
            ("executor: decode reply", parse),
        ):
            self.seconds[name].append(seconds)
        return reply

    def close(self) -> None:
        """Let go of the memory."""
        self.ledger.close()
        self.redo.close()
