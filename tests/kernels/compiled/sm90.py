"""Compiles kernels for an H200 (sm_90) on a machine that has none, and reads what the assembler made of them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

# What one block of threads may have on an H200.
SHARED_BYTES = 227 * 1024

_TARGET = GPUTarget("cuda", 90, 32)
_LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_TYPE_NAMES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.bool: "i1",
}


@dataclass(frozen=True)
class Compiled:
    """One kernel as the assembler left it."""

    name: str
    registers: int
    spilled_bytes: int
    shared_bytes: int
    ptx: str = field(repr=False)

    def copies(self) -> set[int]:
        """Return the widths, in bytes, of the asynchronous copies from global to shared memory."""
        return {
            int(width, 16)
            for width in re.findall(r"cp\.async\.c[ag]\.shared\.global \[.*?\], \[.*?\], 0x(\w+)", self.ptx)
        }

    def loads(self) -> set[int]:
        """Return the widths, in bytes, of the loads from global memory into registers."""
        found = re.findall(r"ld\.global\S*?(?:\.v(\d))?\.b(\d+) ", self.ptx)
        return {int(count or 1) * int(bits) // 8 for count, bits in found}


@contextmanager
def capture() -> Iterator[list[Compiled]]:
    """Make every launch inside the block compile its kernel for sm_90, instead of running it, into the list returned.

    So a test calls a launching function as a server would, with CPU tensors, and gets the kernels with the arguments,
    the specialisation and the options that they would have.
    """
    kernels: list[Compiled] = []

    def run(self: JITFunction[Any], *args: object, grid: object, warmup: bool, **kwargs: object) -> None:
        options = {name: kwargs.pop(name) for name in _LAUNCH_OPTIONS if name in kwargs}
        arguments = dict(zip(self.arg_names, args, strict=False)) | kwargs
        kernels.append(compile_kernel(self, arguments, options))

    with mock.patch.object(JITFunction, "run", run):
        yield kernels


def compile_kernel(kernel: JITFunction[Any], arguments: dict[str, object], options: dict[str, object]) -> Compiled:
    """Compile a kernel with the arguments of a launch, specialised as Triton specialises them."""
    signature: dict[str, str] = {}
    constants: dict[str, object] = {}
    attributes: dict[tuple[int], list[list[object]]] = {}
    for position, parameter in enumerate(kernel.params):
        value = arguments.get(parameter.name, parameter.default)
        integer = isinstance(value, int) and not isinstance(value, bool)
        if parameter.is_constexpr or value is None or (integer and value == 1 and not parameter.do_not_specialize):
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = value
            continue
        signature[parameter.name] = _type_name(value)
        address = value.data_ptr() if isinstance(value, torch.Tensor) else value
        if isinstance(address, int) and address % 16 == 0 and not parameter.do_not_specialize:
            attributes[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    result = triton.compile(source, target=_TARGET, options=options)
    registers, spilled = _usage(result.asm["cubin"])
    return Compiled(kernel.__name__, registers, spilled, result.metadata.shared, result.asm["ptx"])


def _type_name(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return "*" + _TYPE_NAMES[value.dtype]
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


def _usage(cubin: bytes) -> tuple[int, int]:
    """Return registers a thread and bytes of local memory, where spilled registers go."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    registers = re.search(r"REG:(\d+)", text)
    stack, local = re.search(r"STACK:(\d+)", text), re.search(r"LOCAL:(\d+)", text)
    if not (registers and stack and local):
        raise ValueError(f"no usage in {text!r}")
    return int(registers[1]), int(stack[1]) + int(local[1])
