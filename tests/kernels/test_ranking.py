from tests.kernels.contracts.ranking import RankingContract


class TestRankingInTorch(RankingContract):
    pass
