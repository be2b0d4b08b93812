"""A row of a matrix product, whatever the number of its neighbours."""

import pytest
import torch

from executor.models.linear import MAX_ROWS, linear

SHAPES = [(576, 576), (960, 576), (3072, 576), (576, 1536), (131, 48), (40, 64)]
"""[outputs, inputs] of the demo model's products and of small odd ones."""
COUNTS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255, 257, MAX_ROWS, MAX_ROWS + 1, 2 * MAX_ROWS + 9]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_does_not_depend_on_how_many_there_are(shape: tuple[int, int], threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        generator = torch.Generator().manual_seed(sum(shape))
        weight, bias = torch.randn(shape, generator=generator), torch.randn(shape[0], generator=generator)
        x = torch.randn(max(COUNTS), shape[1], generator=generator)
        whole = linear(x, weight, bias)
        for count in COUNTS:
            start = max(COUNTS) - count
            assert torch.equal(linear(x[:count], weight, bias), whole[:count]), count
            assert torch.equal(linear(x[start:], weight, bias), whole[start:]), count
    finally:
        torch.set_num_threads(before)


def test_a_row_does_not_depend_on_where_it_lies_in_memory() -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(96, 50, generator=generator)
    x = torch.randn(8, 50, generator=generator)
    expected = linear(x, weight)
    for offset in range(1, 17):
        moved = torch.empty(8 * 50 + offset)[offset:].view(8, 50).copy_(x)
        assert torch.equal(linear(moved, weight), expected)


def test_the_product_is_right() -> None:
    generator = torch.Generator().manual_seed(2)
    weight, bias, x = (torch.randn(shape, generator=generator) for shape in ((30, 20), (30,), (1033, 20)))
    torch.testing.assert_close(linear(x, weight, bias), (x.double() @ weight.double().T + bias).float())


def test_no_rows_give_no_rows() -> None:
    assert linear(torch.empty(0, 20), torch.empty(30, 20)).shape == (0, 30)
