from tests.kernels.contracts.norms import NormsContract


class TestNormsInTorch(NormsContract):
    pass
