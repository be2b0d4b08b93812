from pagehold.admin.v1 import block_pb2 as _block_pb2
from pagehold.admin.v1 import dump_pb2 as _dump_pb2
from pagehold.admin.v1 import evict_pb2 as _evict_pb2
from pagehold.admin.v1 import executor_pb2 as _executor_pb2
from pagehold.admin.v1 import pin_pb2 as _pin_pb2
from pagehold.admin.v1 import pool_pb2 as _pool_pb2
from pagehold.admin.v1 import prefix_pb2 as _prefix_pb2
from pagehold.admin.v1 import sequence_pb2 as _sequence_pb2
from pagehold.admin.v1 import stats_pb2 as _stats_pb2
from pagehold.admin.v1 import verify_pb2 as _verify_pb2
from pagehold.admin.v1 import watch_pb2 as _watch_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
