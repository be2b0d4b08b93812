from tests.kernels.contracts.copies import CopiesContract


class TestCopiesInterpreted(CopiesContract):
    pass
