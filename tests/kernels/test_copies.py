from tests.kernels.contracts.copies import CopiesContract


class TestCopiesInTorch(CopiesContract):
    pass
