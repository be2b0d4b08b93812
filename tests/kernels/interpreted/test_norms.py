from tests.kernels.contracts.norms import NormsContract


class TestNormsInterpreted(NormsContract):
    widths = (64, 576, 1001)
