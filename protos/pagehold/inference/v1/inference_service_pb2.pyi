from pagehold.inference.v1 import generation_pb2 as _generation_pb2
from pagehold.inference.v1 import requests_pb2 as _requests_pb2
from pagehold.inference.v1 import server_pb2 as _server_pb2
from pagehold.inference.v1 import tokens_pb2 as _tokens_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
