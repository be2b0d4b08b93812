from pagehold.blockmgr.v1 import executor_pb2 as _executor_pb2
from pagehold.blockmgr.v1 import sequence_pb2 as _sequence_pb2
from pagehold.blockmgr.v1 import session_pb2 as _session_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
