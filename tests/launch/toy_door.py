"""A front door for tests of `up`: it says that it serves, and nothing else. Arguments: its address, and whose it is."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from blockmgr.notify import Notifier


def main() -> None:
    ended = Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    servicer = health.HealthServicer()
    servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    server = grpc.server(ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(sys.argv[1])
    server.start()
    notifier = Notifier.from_environment()
    notifier.ready()
    while not ended.wait(0.5):
        notifier.watchdog()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
