"""How chunks become one step."""

import pytest
import torch

from executor.models.batch import Chunk, step_input


def test_chunks_are_flattened_with_their_places() -> None:
    given = step_input([Chunk([7, 8, 9], 15, [4, 2]), Chunk([5], 0, [9])], 16)
    batch = given.batch
    assert given.ids.tolist() == [7, 8, 9, 5]
    assert given.positions.tolist() == [15, 16, 17, 0]
    assert batch.slots.tolist() == [4 * 16 + 15, 2 * 16, 2 * 16 + 1, 9 * 16]
    assert batch.tables.tolist() == [[4, 2], [9, 0]]
    assert batch.query_starts.tolist() == [0, 3, 4]
    assert batch.lengths.tolist() == [18, 1]
    assert (batch.max_query, batch.is_decode) == (3, False)
    assert (batch.tables.dtype, batch.slots.dtype) == (torch.int32, torch.int64)


def test_single_tokens_are_a_decode() -> None:
    assert step_input([Chunk([5], 3, [1]), Chunk([6], 16, [2, 3])], 16).batch.is_decode


def test_a_rope_length_is_the_chunks_own_unless_it_is_said() -> None:
    batch = step_input([Chunk([5], 3, [1]), Chunk([5], 3, [1], rope_length=50)], 16).batch
    assert batch.rope_lengths is not None
    assert batch.rope_lengths.tolist() == [4, 50]


@pytest.mark.parametrize("chunk", [Chunk([], 0, [1]), Chunk([1] * 17, 0, [1]), Chunk([1], 16, [1])])
def test_a_chunk_without_tokens_or_without_blocks_for_them_is_refused(chunk: Chunk) -> None:
    with pytest.raises(ValueError, match="a chunk of"):
        step_input([chunk], 16)


def test_a_slot_may_lie_beyond_32_bits() -> None:
    block = (1 << 31) // 16 + 5
    assert step_input([Chunk([1], 0, [block])], 16).batch.slots.tolist() == [block * 16]
