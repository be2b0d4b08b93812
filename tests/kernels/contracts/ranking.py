"""What holds for the ranking of tokens on every device."""

import pytest
import torch

from kernels.sampling.ranking import rank


class RankingContract:
    device = "cpu"

    def logits(self, rows: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        drawn = torch.randn((rows, width), generator=torch.Generator().manual_seed(rows + width)) * 3
        return drawn.to(dtype).to(self.device)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("width", [7, 1024, 50000])
    def test_it_is_the_head_of_a_full_sort_with_the_lower_id_first(self, width: int, dtype: torch.dtype) -> None:
        logits = self.logits(5, width, dtype)
        ids, logprobs = rank(logits, 7)
        values, order = torch.log_softmax(logits.float(), -1).sort(dim=-1, descending=True, stable=True)
        assert torch.equal(ids, order[:, :7])
        assert torch.equal(logprobs, values[:, :7])

    @pytest.mark.parametrize("width", [131, 1024, 50000])
    def test_a_row_does_not_depend_on_how_many_there_are(self, width: int) -> None:
        logits = self.logits(70, width)
        together = rank(logits, 6)
        for row in range(0, 70, 9):
            alone = rank(logits[row : row + 1], 6)
            assert torch.equal(alone[0][0], together[0][row])
            assert torch.equal(alone[1][0], together[1][row])

    def test_padding_of_the_head_is_never_named_but_counts(self) -> None:
        logits = torch.zeros((1, 8), device=self.device)
        logits[0, 7] = 5.0
        ids, logprobs = rank(logits, 3, vocabulary=4)
        assert ids.tolist() == [[0, 1, 2]]
        assert torch.equal(logprobs, torch.log_softmax(logits, -1)[:, :3])

    def test_excluded_tokens_come_last_and_a_row_without_numbers_names_none(self) -> None:
        logits = torch.tensor([[0.0, float("-inf"), 1.0], [0.0, float("nan"), 1.0]], device=self.device)
        ids, logprobs = rank(logits, 3)
        assert ids[0].tolist() == [2, 0, 1]
        assert logprobs[0, 2] == float("-inf")
        assert logprobs[1].isnan().all()

    def test_what_cannot_be_is_refused(self) -> None:
        with pytest.raises(ValueError, match="count is 4; it must be 1 to 3"):
            rank(self.logits(1, 5), 4, vocabulary=3)
        with pytest.raises(ValueError, match="vocabulary is 6"):
            rank(self.logits(1, 5), 1, vocabulary=6)
