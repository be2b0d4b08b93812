"""Matrix products whose rows do not depend on how many rows there are."""

import torch
from torch.nn import functional

ROW_MULTIPLE = 8
"""Matrix libraries for CPUs choose other code, with another order of additions, for 1, 2 or 3 rows than for more; from
this multiple on they treat each row alike."""

MAX_ROWS = 512
"""Rows of one product on a CPU: more are cut into several, so that the sizes in use stay a short, tested list."""

ALIGNMENT = 64
"""Bytes. The same libraries may add in another order when rows start elsewhere in a vector register."""


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """X [rows, inputs] times weight [outputs, inputs] transposed, plus bias [outputs].

    On a CPU a row's result is the same, to the bit, for any number of other rows. On a GPU it is as far as cuBLAS
    can be held to it: see `executor.models.cublas`.
    """
    if x.device.type != "cpu":
        return functional.linear(x, weight, bias)
    rows = x.shape[0]
    if rows > MAX_ROWS:
        return torch.cat([linear(part, weight, bias) for part in x.split(MAX_ROWS)])
    padded = -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE
    if padded != rows or not x.is_contiguous() or x.data_ptr() % ALIGNMENT:
        filled = x.new_zeros((padded, x.shape[1]))
        filled[:rows] = x
        x = filled
    return functional.linear(x, weight, bias)[:rows]
