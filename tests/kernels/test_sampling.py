from tests.kernels.contracts.sampling import SamplingContract


class TestSamplingInTorch(SamplingContract):
    pass
