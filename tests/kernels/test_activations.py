from tests.kernels.contracts.activations import ActivationsContract


class TestActivationsInTorch(ActivationsContract):
    pass
