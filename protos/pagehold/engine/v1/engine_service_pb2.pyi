from pagehold.engine.v1 import description_pb2 as _description_pb2
from pagehold.engine.v1 import submit_pb2 as _submit_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
